"""``validate`` in daily use: settings, baselines, reports in files, statistics, many models."""

import json
import re
from pathlib import Path

import onnx
import pytest
from support import sarif
from support.command import qdqtool
from support.renamed import renamed

from qdqtool.linting import rules


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    onnx.save(rules.get("QP101").INVALID[0].model(), tmp_path / "models" / "bad.onnx")
    onnx.save(rules.get("QL302").INVALID[0].model(), tmp_path / "models" / "doubtful.onnx")
    onnx.save(rules.get("QP102").VALID[0].model(), tmp_path / "models" / "good.onnx")
    return tmp_path


def test_settings_are_found_from_the_working_directory(project: Path):
    (project / "pyproject.toml").write_text('[tool.qdqtool]\nselect = ["QP101", "QL302"]\nfail-on = "warning"\n')
    here = project / "models"

    found, isolated, mild, unselected = (
        qdqtool("validate", "doubtful.onnx", *words, cwd=here)
        for words in ((), ("--isolated",), ("--fail-on", "error"), ("--select", "QP"))
    )

    assert (found.code, isolated.code, mild.code, unselected.code) == (1, 0, 0, 0)
    assert all("warning QL302" in done.out for done in (found, isolated, mild))
    assert "QL302" not in unselected.out


def test_a_severity_of_the_settings_changes_the_verdict(project: Path):
    (project / "qdqtool.toml").write_text('[severity]\nQP101 = "warning"\nQL = "error"\n')
    done = qdqtool("validate", "models/bad.onnx", "models/doubtful.onnx", "--select", "QP101,QL302", cwd=project)
    assert "bad.onnx for tensorrt: pass" in done.out
    assert "doubtful.onnx for tensorrt: fail" in done.out


def test_every_format_names_what_the_settings_ignore(project: Path):
    """A settings file in a folder above turns a finding into a pass: that must be seen."""
    (project / "qdqtool.toml").write_text('select = ["QP101"]\nignore = ["QP101"]\n')
    here = project / "models"

    def out(output_format: str) -> str:
        done = qdqtool("validate", "bad.onnx", "--output-format", output_format, cwd=here)
        assert done.code == 0
        return done.out

    assert "not selected, 1 ignored: QP101)" in out("text")
    assert f"settings: {project / 'qdqtool.toml'}" in out("text").replace("\n", "")
    for output_format in ("concise", "github", "markdown"):
        assert "1 ignored (QP101)" in out(output_format).replace("&#40;", "(").replace("&#41;", ")")
    document = json.loads(out("json"))
    assert document["summary"]["ignored"] == 1
    assert document["settings"] == str(project / "qdqtool.toml")
    assert document["models"][0]["targets"][0]["ignored"] == [{"code": "QP101", "count": 1, "errors": 1}]
    assert '<skipped message="ignored; 1 finding" />' in out("junit")
    assert sarif.read(out("sarif")).properties.ignored == {"QP101": 1}


def test_show_settings(project: Path):
    (project / "qdqtool.toml").write_text('ignore = ["QS"]\n[per-node-ignores]\n"*" = ["QL"]\n')
    done = qdqtool("validate", "--show-settings", "--target", "onnx,ort-cpu", cwd=project)
    document = json.loads(qdqtool("validate", "--show-settings", "--output-format", "json", cwd=project).out)

    assert done.code == 0
    assert done.out.startswith(f"# {project / 'qdqtool.toml'}\n")
    assert 'targets = ["onnx", "ort-cpu"]\n' in done.out
    assert 'ignore = ["QS"]\n' in done.out
    assert '[per-node-ignores]\n"*" = ["QL"]\n' in done.out
    assert document["policy"]["ignore"] == ["QS"]


def test_wrong_settings_are_wrong_usage(project: Path):
    (project / "qdqtool.toml").write_text("ignroe = []\n")
    done = qdqtool("validate", "models/good.onnx", cwd=project)
    assert done.code == 2
    assert "did you mean 'ignore'" in done.err


def test_a_baseline_is_adopted_and_only_new_findings_fail(project: Path):
    words = ("validate", "models/bad.onnx", "models/doubtful.onnx", "--fail-on", "warning")
    written = qdqtool(*words, "--write-baseline", "known.json", cwd=project)
    clean = qdqtool(*words, "--baseline", "known.json", cwd=project)

    assert (written.code, written.out) == (0, "")
    assert re.fullmatch(r"\d+ findings? written to known.json\n", written.err)
    assert clean.code == 0
    assert " in the baseline" in clean.out

    model = onnx.load(project / "models" / "bad.onnx")
    onnx.save(renamed(model), project / "models" / "bad.onnx")
    assert qdqtool(*words, "--baseline", "known.json", cwd=project).code == 0

    onnx.save(rules.get("QP101").INVALID[1].model(), project / "models" / "bad.onnx")
    changed = qdqtool(*words, "--baseline", "known.json", cwd=project)
    assert changed.code == 1
    assert "are fixed; --write-baseline removes them from the file" in changed.err


def test_a_baseline_that_the_settings_name(project: Path):
    (project / "qdqtool.toml").write_text('baseline = "known.json"\n')
    here = project / "models"

    missing = qdqtool("validate", "bad.onnx", cwd=here)
    assert missing.code == 2
    assert "--write-baseline" in missing.err

    qdqtool("validate", "bad.onnx", "--write-baseline", project / "known.json", cwd=here)
    assert qdqtool("validate", "bad.onnx", cwd=here).code == 0


def test_reports_in_files_beside_the_text(project: Path):
    files = [f"--report={name}={project / name}" for name in ("sarif", "junit", "markdown", "json", "text", "concise")]
    done = qdqtool("validate", "models/bad.onnx", *files, cwd=project)

    assert done.code == 1
    assert "error QP101" in done.out
    assert sarif.read((project / "sarif").read_text()).results
    assert (project / "junit").read_text().startswith("<?xml")
    assert json.loads((project / "json").read_text())["summary"]["errors"] == 1
    assert "graph: " in (project / "text").read_text()
    assert all((project / name).read_text().endswith("\n") for name in ("sarif", "junit", "markdown", "json", "text"))


def test_statistics_count_by_rule(project: Path):
    words = ("validate", "models/bad.onnx", "--target", "tensorrt,ort-cpu", "--select", "QP101", "--statistics")
    (row,) = json.loads(qdqtool(*words, "--output-format", "json", cwd=project).out)["rules"]
    assert (row["code"], row["severity"], row["count"]) == ("QP101", "error", 2)
    assert re.search(r"^2 +QP101 +parameters.scale-value +error", qdqtool(*words, cwd=project).out, re.MULTILINE)


def test_suppressed_findings_are_counted(project: Path):
    model = onnx.load(project / "models" / "bad.onnx")
    model.metadata_props.add(key="qdqtool.ignore", value="QP101: a test")
    onnx.save(model, project / "models" / "bad.onnx")
    done = qdqtool("validate", "models/bad.onnx", "--select", "QP101,QM901", cwd=project)

    assert done.code == 0
    assert done.out.splitlines()[-1] == "1 model, 0 errors, 0 warnings, 0 infos, 1 suppressed"


def test_models_in_processes_are_reported_in_order(project: Path):
    names = ["models/good.onnx", "models/none.onnx", "models/bad.onnx", "models/doubtful.onnx"]
    one, two = (qdqtool("validate", *names, "--jobs", jobs, cwd=project) for jobs in ("1", "2"))
    assert (one.code, one.out, one.err) == (two.code, two.out, two.err)
    assert one.code == 3
    assert re.findall(r"^(\S+)(?: for |: unread)", one.out, re.MULTILINE) == names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--baseline", "a", "--write-baseline", "b"], "exclude each other"),
        (["--statistics", "--output-format", "sarif"], "no output format sarif"),
        (["--report", "sarfi=x"], "did you mean 'sarif'"),
        (["--report", "sarif"], "'sarif' has no file name; write sarif=FILE"),
        (["--report", "=x"], "is not FORMAT=FILE"),
        (["--report", "sarif=no/such/folder/x"], "output folder no/such/folder does not exist"),
        (["--report", "html=x", "models/good.onnx"], "needs one model, and 2 are given"),
        (["--extend-select", "QX"], "neither ALL nor"),
        (["--jobs", "0"], "Invalid value"),
        (["--diff", "--statistics"], "cannot be used with --fix"),
        (["--diff", "--output-format", "sarif"], "cannot be used with --fix"),
    ],
)
def test_wrong_usage(words: list[str], said: str, project: Path):
    done = qdqtool("validate", "models/good.onnx", *words, cwd=project)
    assert done.code == 2
    assert said in done.err


def test_diff_is_a_gate(project: Path):
    good, bad = project / "models" / "good.onnx", project / "models" / "bad.onnx"

    assert qdqtool("diff", good, good, "--assert-preserved").code == 0
    assert qdqtool("diff", good, bad).code == 0
    assert qdqtool("diff", good, bad, "--assert-preserved").code == 1
    assert qdqtool("diff", good, project / "none.onnx").code == 3
    document = json.loads(qdqtool("diff", good, good, "--output-format", "json").out)
    assert (document["schema_version"], document["preserved"], document["removed"]) == (1, True, [])


def test_hostile_names_in_a_diff(tmp_path: Path):
    model = rules.get("QA201").VALID[0].model()
    plain = tmp_path / "plain.onnx"
    onnx.save(model, plain)
    names = {name for node in model.graph.node for name in node.output} - {value.name for value in model.graph.output}
    for node in model.graph.node:
        node.name = f"\x1b[31m[bold]\n{node.op_type}"
        for field in (node.input, node.output):
            field[:] = [f"{name}\x1b[31m\u202e\n" if name in names else name for name in field]
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.raw_data = (onnx.numpy_helper.to_array(tensor) * 2).tobytes()
            tensor.ClearField("float_data")
    onnx.save(model, tmp_path / "hostile.onnx")
    for pair in ((plain, tmp_path / "hostile.onnx"), (tmp_path / "hostile.onnx", plain)):
        done = qdqtool("diff", *pair)
        assert " changed, " in done.out
        assert ", 0 changed, " not in done.out
        assert not {"\x1b", "\u202e"} & set(done.out)
    assert "\\x1b[31m[bold]\\nConv" in done.out  # names are those of the first model
