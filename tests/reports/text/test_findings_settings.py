"""What ``validate --show-settings`` prints."""

import tomllib
from pathlib import Path

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.linting.policy import Policy
from qdqtool.linting.settings import Settings
from qdqtool.reports.text.findings import render_settings

DEFAULTS = Settings(source=None, fail_on="error", baseline=None, policy=Policy(parser=None))


def test_without_a_file_the_defaults_are_shown():
    text = printed(render_settings, DEFAULTS)

    assert text.startswith("# no file; command line and defaults\n")
    assert tomllib.loads(text) == {
        "targets": ["tensorrt"],
        "sm": [],
        "select": ["ALL"],
        "extend-select": [],
        "ignore": [],
        "fail-on": "error",
        "baseline": "",
    }


def test_the_output_is_a_settings_file():
    policy = Policy(
        targets=("onnx",),
        compute_capabilities=(89,),
        select=("QP",),
        extend_select=("QS",),
        ignore=("QL",),
        parser=True,
        severity={"QP101": "info"},
        per_model_ignores={"a*.onnx": ("QP",)},
        per_node_ignores={HOSTILE: ("QS001",)},
    )
    text = printed(
        render_settings, Settings(source=Path("q.toml"), fail_on="never", baseline=Path("b.json"), policy=policy)
    )
    found = tomllib.loads(text)

    assert text.startswith("# q.toml\n")
    assert (found["targets"], found["sm"], found["select"]) == (["onnx"], ["8.9"], ["QP"])
    assert (found["fail-on"], found["baseline"]) == ("never", "b.json")
    assert (found["extend-select"], found["ignore"]) == (["QS"], ["QL"])
    assert found["parser"] is True
    assert found["severity"] == {"QP101": "info"}
    assert found["per-model-ignores"] == {"a*.onnx": ["QP"]}
    assert found["per-node-ignores"] == {HOSTILE: ["QS001"]}
    assert "\x1b" not in text


def test_the_file_name_is_escaped():
    source = Path(HOSTILE)

    assert printed(
        render_settings, Settings(source=source, fail_on="error", baseline=None, policy=Policy())
    ).startswith(f"# {ESCAPED}\n")
