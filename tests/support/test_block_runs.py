"""Running the blocks of a page: what differs from the page is found."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.block_runs import run_blocks, shows
from support.code_blocks import read_blocks


def run(text: str, folder: Path, **names: object) -> set[str]:
    return run_blocks(list(read_blocks(text, "page.md")), folder, names=names)


def test_a_page_runs_in_one_folder_and_one_namespace(tmp_path: Path):
    given: dict[str, object] = {"start": 40}
    page = """
```sh
mkdir -p made/here
qdqtool schema check > made/here/check.json
qdqtool schema nothing    # exit code 2
make demo
```

```python
import json
from pathlib import Path

title = json.loads(Path("made/here/check.json").read_text())["$schema"]
```

```python
print(start + 2, "schema" in title)
```

```text
42 True
```

```console
$ qdqtool validate made/*.onnx  # exit code 3
made/*.onnx: unreadable
  made/*.onnx: no such …
```
"""
    assert run_blocks(list(read_blocks(page, "page.md")), tmp_path, names=given) == set()
    assert given == {"start": 40}
    assert (tmp_path / "made/here/check.json").stat().st_size > 1000


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("```sh\nqdqtool schema nothing\n```", "page.md:1: qdqtool schema nothing\nended with 2"),
        ("```sh\nqdqtool schema  # exit code 1\n```", "ended with 0"),
        ("```console\n$ qdqtool schema\nno such line\n```", "without the line\nno such line"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```", "page.md:1 prints something else than page.md:5 says"),
        ("```python\ndef test_it(qdq):\n    qdq.validate('absent.onnx')\n```", "absent.onnx"),
    ],
)
def test_what_differs_from_the_page_is_found(page: str, said: str, tmp_path: Path):
    with pytest.raises(Exception, match=re.escape(said)):
        run(page, tmp_path)


def test_what_is_not_run_is_told(tmp_path: Path):
    blocks = list(read_blocks("```sh\nqdqtool schema nothing\n```\n\n```python\n1 / 0\n```", "page.md"))
    assert run_blocks(blocks, tmp_path, names={}, not_run=("qdqtool schema", "1 /", "never")) == {
        "qdqtool schema",
        "1 /",
    }


PRINTED = "8 of 9 nodes   are int8\n  worst -42.25 dB in 0.3 s\nwrote a.onnx, 1.7.1.116\n"
SHOWN: Mapping[str, tuple[str, str | None]] = {
    "all": (PRINTED, None),
    "other measurements": ("worst -41.0 dB in 11.25 s\nwrote a.onnx, 1.8.0", None),
    "something left out": ("8 of …\n…\nwrote …, 1.7.1.116", None),
    "another count": ("7 of 9 nodes are int8", "7 of 9 nodes are int8"),
    "another name": ("wrote b.onnx, 1.7.1.116", "wrote b.onnx, 1.7.1.116"),
    "a beginning": ("8 of 9 nodes", "8 of 9 nodes"),
    "another order": ("wrote …\n8 of …", "8 of …"),
    "once is not twice": ("wrote …\nwrote …", "wrote …"),
    "a sign": ("worst 42.25 dB in 0.3 s", None),
}


@pytest.mark.parametrize("name", SHOWN)
def test_shown_lines_are_compared_up_to_measurements(name: str):
    shown, missing = SHOWN[name]
    assert shows(PRINTED, shown.splitlines()) == missing
