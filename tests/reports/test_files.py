"""Reports in files: each format is that of its renderer, and a failure leaves its reason."""

import json
from pathlib import Path

import pytest
from support.saved_reports import REFUSED

from qdqtool.engines.report import Refusal
from qdqtool.engines.tensorrt.builder import BuildRefusedError
from qdqtool.errors import CapabilityError, GateError, ModelError, UsageError
from qdqtool.reports import files
from qdqtool.reports.files import FORMATS, ReportFile, failures_in


def every_format(folder: Path) -> tuple[ReportFile, ...]:
    return tuple((each, folder / f"r.{each}") for each in FORMATS)


@pytest.mark.parametrize(
    ("error", "state"), [(GateError("no model", hint="more data"), "failed"), (CapabilityError("no model"), "warning")]
)
def test_a_missed_gate_or_a_missing_capability_is_written(error: Exception, state: str, tmp_path: Path):
    with pytest.raises(type(error)), failures_in(every_format(tmp_path), "quantize", "net.onnx"):
        raise error

    assert (tmp_path / "r.text").read_text().startswith("error: no model\n")
    assert json.loads((tmp_path / "r.json").read_text())["error"]["message"] == "no model"
    page = (tmp_path / "r.html").read_text()
    assert f'<span class="badge {state}">' in page
    assert "quantize: no model" in page
    assert ("Hint: more data" in page) == (state == "failed")


@pytest.mark.parametrize("kind", [UsageError, ModelError])
def test_wrong_usage_and_unreadable_models_write_nothing(kind: type[Exception], tmp_path: Path):
    with pytest.raises(kind), failures_in(every_format(tmp_path), "check", "net.onnx"):
        raise kind("wrong")
    assert list(tmp_path.iterdir()) == []


def test_a_refused_build_has_its_own_report(tmp_path: Path):
    error = BuildRefusedError("the parser", (Refusal(reason="no such operator", node=None, op_type=None),), "parse")
    with pytest.raises(BuildRefusedError), failures_in(every_format(tmp_path), "build", "net.onnx"):
        raise error
    assert json.loads((tmp_path / "r.json").read_text()).keys() >= REFUSED.keys()
    assert (
        "refused in stage &#39;parse&#39;: the parser refuses the model: no such operator"
        in (tmp_path / "r.html").read_text()
    )


def test_a_file_that_cannot_be_written_does_not_hide_the_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    absent = (("html", tmp_path / "absent" / "r.html"),)
    with pytest.raises(GateError, match="no model"), failures_in(absent, "check", "net.onnx"):
        raise GateError("no model")
    assert "cannot be written" in capsys.readouterr().err


def test_formats_of_the_command_line_are_those_that_are_written():
    from qdqtool.cli import reports as _reports

    assert _reports.FORMATS == files.FORMATS
