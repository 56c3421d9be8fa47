"""docs/reference/python.md names everything public, and docs/start/notebook.ipynb gives what it shows.

``QDQTOOL_WRITE_GOLDEN=1`` stores what the cells of the notebook give.
"""

import importlib.util
import json
import os
import re
from typing import Any

import pytest
from support.cells import Given, run_cells
from support.paths import ROOT

import qdqtool

PAGE = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
NOTEBOOK = ROOT / "docs/start/notebook.ipynb"
HAS_BUILDER = importlib.util.find_spec("tensorrt_rtx") is not None


def test_the_page_names_every_public_error_and_all_keywords():
    listed = set(re.findall(r"^\| `qdq\.errors\.(\w+)` \|", PAGE, re.MULTILINE))
    assert listed == set(qdqtool.errors.__all__)
    for name, code in re.findall(r"^\| `qdq\.errors\.(\w+)` \| (\d) \|", PAGE, re.MULTILINE):
        assert getattr(qdqtool.errors, name).exit_code == int(code)
    classes = {name for name in vars(qdqtool.keywords) if name.endswith("Keywords")}
    assert classes == set(re.findall(r"`(\w+Keywords)`", PAGE))


@pytest.mark.slow(reason="runs the notebook")
@pytest.mark.builder
def test_the_notebook_gives_what_it_stores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT / "docs/start")
    before = sorted(path.name for path in (ROOT / "docs/start").iterdir())
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    given = run_cells(["".join(cell["source"]) for cell in cells])
    if os.environ.get("QDQTOOL_WRITE_GOLDEN"):
        for number, (cell, each) in enumerate(zip(cells, given, strict=True), 1):
            cell["outputs"], cell["execution_count"] = outputs(each, number), number
        NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for number, (cell, each) in enumerate(zip(cells, given, strict=True), 1):
        if "tensorrt_rtx" not in "".join(cell["source"]) or HAS_BUILDER:
            assert cell["outputs"] == outputs(each, number)
    assert len(cells) > 4
    assert sum(bool(cell["outputs"]) for cell in cells) > 3
    assert sorted(path.name for path in (ROOT / "docs/start").iterdir()) == before, "the notebook leaves no files"


def outputs(given: Given, number: int) -> list[dict[str, Any]]:
    """What a cell gives, as the notebook format stores it."""
    found: list[dict[str, Any]] = []
    if given.text:
        found.append({"name": "stdout", "output_type": "stream", "text": given.text.splitlines(keepends=True)})
    if given.html is not None:
        result = {"data": {"text/html": [given.html]}, "execution_count": number, "metadata": {}}
        found.append({**result, "output_type": "execute_result"})
    return found
