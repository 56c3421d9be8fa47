"""What the parser is asked about, and how its answers become what the linter takes in."""

from dataclasses import replace
from pathlib import Path

import onnx
import onnx.parser
import pytest
from support.paths import ROOT

from qdqtool.engines.build import parser_answer
from qdqtool.engines.build.parser_answer import asked_about
from qdqtool.engines.tensorrt import backends
from qdqtool.engines.tensorrt.backends.tensorrt_rtx import BUILDER as RTX
from qdqtool.engines.tensorrt.parser_process import Parsed
from qdqtool.errors import CapabilityError
from qdqtool.linting.parser_answer import ParserAnswer

BUILDER = pytest.mark.builder


def saved(folder: Path, name: str, body: str = "y = Relu (x)") -> Path:
    text = f'<ir_version: 10, opset_import: ["": 21]> agraph (float[2,2] x) => (float[2,2] y) {{ {body} }}'
    path = folder / name
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def word(path: Path, *, demanded: bool = False) -> ParserAnswer:
    with asked_about([path], demanded=demanded) as answer:
        return answer(path)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a stand-in in the place of TensorRT for RTX."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    monkeypatch.setattr(backends, "get", lambda _: replace(RTX, module="support.pretended_trt"))


@BUILDER
def test_the_real_parser_accepts_and_refuses(tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    good, bad = saved(tmp_path, "good.onnx"), saved(tmp_path, "bad.onnx", "[det] d = Det (x)\n y = Add (x, d)")
    with asked_about([good, bad], demanded=False) as answer:
        accepted, refused = answer(good), answer(bad)

    assert accepted.status == refused.status == "asked"
    assert not accepted.faults
    (fault,) = refused.faults
    assert (fault.name, fault.op_type, fault.reason) == ("det", "Det", "operator Det is not supported")
    assert fault.title.startswith("TensorRT for RTX 1.")
    assert "outside the engine" in fault.hint
    assert refused.messages == ("false",)


@pytest.mark.usefixtures("pretended")
def test_a_model_that_kills_the_parser_has_that_against_it(tmp_path: Path):
    answer = word(saved(tmp_path, "dies.onnx"))

    assert answer.status == "asked"
    assert "crashes on this model (SIGSEGV)" in answer.faults[0].reason


@pytest.mark.usefixtures("pretended")
def test_a_large_model_is_asked_about_on_demand_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parser_answer, "MOST_BYTES", 10)
    path = saved(tmp_path, "fine.onnx")

    assert (word(path).status, "--parser" in word(path).note) == ("off", True)
    assert word(path, demanded=True).status == "asked"


def test_no_answer_in_time():
    answer = parser_answer._word(backends.get("tensorrt-rtx"), Path("m.onnx"), Parsed("timed out", {"version": "1.0"}))

    assert (answer.status, answer.note) == ("timed out", "TensorRT for RTX 1.0 gave no answer in 30 s")


def test_without_the_package_it_is_absent_or_an_error_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backends, "get", lambda _: replace(RTX, module="no_such_module"))
    path = saved(tmp_path, "fine.onnx")

    assert word(path).status == "absent"
    with pytest.raises(CapabilityError, match="not installed"):
        word(path, demanded=True)


@pytest.mark.usefixtures("pretended")
def test_a_file_with_data_outside_its_folder_is_not_given_to_the_parser(tmp_path: Path):
    (tmp_path / "secret").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    model = onnx.load(saved(folder, "dies.onnx"))
    weight = model.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="../secret")
    (folder / "dies.onnx").write_bytes(model.SerializeToString())

    assert word(folder / "dies.onnx") == ParserAnswer(status="off", note="the model cannot be read")
