"""The functions that rewrite models take each option as a keyword, and hand it to the job."""

from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

import qdqtool
from qdqtool.jobs import fix, normalize, reduce

OPEN = """<ir_version: 10, opset_import: ["": 21]>
g (float[n, 4] x) => (float[n, 4] z) <float s = {0.5}, int8 zp = {0}> {
  q = QuantizeLinear (x, s, zp)
  z = DequantizeLinear (q, s, zp)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(OPEN), path)
    return path


def test_shapes_reach_the_runs_that_prove_a_rewriting(model: Path, monkeypatch: pytest.MonkeyPatch):
    asked: dict[str, Any] = {}
    monkeypatch.setattr(normalize, "normalize_model", lambda *_, data, **__: asked.update(data=data))
    qdqtool.normalize_model(model, model.with_name("out.onnx"), input_shapes={"x": [3, 4]})
    assert asked["data"].input_shapes == {"x": (3, 4)}
    assert asked["data"].path is None


def test_fixes_are_proven_on_samples_of_any_kind(model: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[Any] = []
    monkeypatch.setattr(fix, "fix_models", lambda *given: asked.extend(given))
    qdqtool.fix_models([model], in_place=True, unsafe=True, data="samples.npz")

    models, request = asked
    assert (models, request.in_place, request.unsafe, request.diff) == ([model], True, True, False)
    assert request.data.path == Path("samples.npz")


def test_a_model_is_stripped_into_a_file(model: Path, tmp_path: Path):
    report = qdqtool.strip_model(model, tmp_path / "float.onnx", drop_clipping=True)
    assert Path(report.output) == tmp_path / "float.onnx"
    assert {node.op_type for node in onnx.load(report.output).graph.node} & {
        "QuantizeLinear",
        "DequantizeLinear",
    } == set()


def test_what_fails_is_described_in_keywords(model: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[Any] = []
    monkeypatch.setattr(reduce, "reduce_model", lambda *given: asked.extend(given))
    words = {"options": ["--min-sqnr", "30"], "match": "no", "timeout": 5, "max_runs": 7, "report": "r.md"}
    qdqtool.reduce_model(model, "small.onnx", "check", input_shapes={"x": (1, 4)}, **words)  # type: ignore[arg-type]

    assert asked[:3] == [model, "small.onnx", "check"]
    found = asked[3]
    assert (found.options, found.match, found.timeout, found.max_runs) == (("--min-sqnr", "30"), "no", 5, 7)
    assert (found.input_shapes, found.report) == ({"x": (1, 4)}, Path("r.md"))
