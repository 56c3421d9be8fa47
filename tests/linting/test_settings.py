"""Settings files: which one counts, what it may say, and what the command line replaces."""

from pathlib import Path

import pytest

from qdqtool.errors import UsageError
from qdqtool.linting.policy import Policy
from qdqtool.linting.settings import Config, find_config, read_config, settle
from qdqtool.models.plugins import PluginOperator


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


FULL = """
targets = ["tensorrt", "ort-cpu"]
select = ["QS", "QP"]
extend-select = ["QL301"]
ignore = ["QS002"]
fail-on = "warning"
plugin-ops = ["acme::Swirl=same-as-input-0"]
parser = true
baseline = "known.json"
[severity]
QL = "warning"
[per-model-ignores]
"legacy/*.onnx" = ["QL"]
[per-node-ignores]
"/decoder/*" = ["QL302"]
"""


def test_every_setting_arrives(tmp_path: Path):
    source = write(tmp_path / "qdqtool.toml", FULL)
    settings = settle(Config(), isolated=False, folder=tmp_path)

    assert settings.source == source
    assert (settings.fail_on, settings.baseline) == ("warning", tmp_path / "known.json")
    assert settings.policy == Policy(
        targets=("tensorrt", "ort-cpu"),
        select=("QS", "QP"),
        extend_select=("QL301",),
        ignore=("QS002",),
        plugin_ops=(PluginOperator("acme", "Swirl", 0),),
        parser=True,
        severity={"QL": "warning"},
        per_model_ignores={"legacy/*.onnx": ("QL",)},
        per_node_ignores={"/decoder/*": ("QL302",)},
        folder=tmp_path,
    )


def test_the_command_line_replaces_and_extends(tmp_path: Path):
    write(tmp_path / "qdqtool.toml", FULL)
    given = Config(
        targets=["onnx"], select=["ALL"], extend_select=["QA"], ignore=[], fail_on="never", baseline="b.json"
    )
    settings = settle(given, isolated=False, folder=tmp_path)

    assert (settings.fail_on, settings.baseline) == ("never", Path("b.json"))
    assert (settings.policy.targets, settings.policy.select) == (("onnx",), ("ALL",))
    assert (settings.policy.extend_select, settings.policy.ignore) == (("QL301", "QA"), ())
    assert settings.policy.severity == {"QL": "warning"}


def test_isolated_reads_nothing(tmp_path: Path):
    write(tmp_path / "qdqtool.toml", "nonsense")
    settings = settle(Config(), isolated=True, folder=tmp_path)

    assert (settings.source, settings.fail_on, settings.policy) == (None, "error", Policy(parser=None))


def test_the_nearest_file_counts(tmp_path: Path):
    outer = write(tmp_path / "qdqtool.toml", "")
    inner = write(tmp_path / "a" / "pyproject.toml", "[tool.qdqtool]\n")
    write(tmp_path / "a" / "b" / "pyproject.toml", "[tool.other]\n")

    assert find_config(tmp_path / "a" / "b") == inner
    assert find_config(tmp_path) == outer
    assert find_config(write(tmp_path / "a" / "qdqtool.toml", "").parent) == tmp_path / "a" / "qdqtool.toml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ignroe = []", "unknown setting 'ignroe'.*did you mean 'ignore'"),
        ("extend_select = []", "did you mean 'extend-select'"),
        ('ignore = ["QP1O1"]', "did you mean 'QP1"),
        ('targets = ["tensort"]', "did you mean 'tensorrt'"),
        ('select = "ALL"', r"Expected 'array', got 'str' - at '\$.select'"),
        ('fail-on = "info"', "Invalid enum value 'info'"),
        ('[severity]\nQL = "off"', "Invalid enum value 'off'"),
        ('[severity]\nQX = "info"', "'QX' is neither"),
        ('[per-node-ignores]\n"*" = ["QX"]', "'QX' is neither"),
        ('plugin-ops = ["Swirl"]', "plugin-ops 'Swirl' does not name an operator"),
        # Settings load no library.
        ('plugins = ["evil.so"]', "unknown setting 'plugins'"),
        ("a = ", "not valid TOML"),
        ("a = " + "[" * 5000, "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named_with_the_file(text: str, said: str, tmp_path: Path):
    path = write(tmp_path / "qdqtool.toml", text)

    with pytest.raises(UsageError, match=said) as caught:
        read_config(path)
    assert str(path) in caught.value.message


def test_a_pyproject_that_is_no_toml_is_named(tmp_path: Path):
    write(tmp_path / "pyproject.toml", "[tool")

    with pytest.raises(UsageError, match=r"pyproject.toml is not valid TOML"):
        find_config(tmp_path)


def test_a_tool_table_that_is_no_table_is_refused(tmp_path: Path):
    path = write(tmp_path / "pyproject.toml", "[tool]\nqdqtool = 1\n")

    with pytest.raises(UsageError, match=r"\[tool.qdqtool\] is not a table"):
        read_config(path)
