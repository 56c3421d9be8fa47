"""Foreign forms of quantization, each against what ONNX Runtime makes of it before and after."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from support.paths import ROOT
from support.rich_model import rich_model

from qdqtool.jobs.normalize import normalize_model, normalized_model
from qdqtool.linting.repair import forms
from qdqtool.linting.repair.report import Repaired
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

SAMPLES = ROOT / "sample_models"

HEADER = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'

PAIR = "QuantizeLinear DequantizeLinear"

FORMS = {
    "div round clip mul": (
        (
            "<float s = {0.05}, float lo = {-128}, float hi = {127}> {"
            " a = Div(x, s) b = Round(a) c = Clip(b, lo, hi) y = Mul(c, s) }"
        ),
        PAIR,
    ),
    "torch: mul round add clip sub mul, uint8 around 128": (
        (
            "<float i = {20}, float s = {0.05}, float z = {128}, float lo = {0}, float hi = {255}> {"
            " a = Mul(x, i) b = Round(a) c = Add(b, z) d = Clip(c, lo, hi) e = Sub(d, z) y = Mul(e, s) }"
        ),
        PAIR,
    ),
    "narrow range": (
        (
            "<float s = {0.01}, float lo = {-127}, float hi = {127}> {"
            " a = Div(x, s) b = Round(a) c = Clip(b, lo, hi) y = Mul(s, c) }"
        ),
        f"Max {PAIR}",
    ),
    "casts to int8 and back": (
        (
            "<float s = {0.05}, float lo = {-128}, float hi = {127}> {"
            " a = Div(x, s) b = Round(a) c = Clip(b, lo, hi)"
            " d = Cast <to = 3> (c) e = Cast <to = 1> (d) y = Mul(e, s) }"
        ),
        PAIR,
    ),
    "a scale for each channel": (
        (
            "<float[3,1] s = {0.05, 0.1, 0.02}, float lo = {-128}, float hi = {127}> {"
            " a = Div(x, s) b = Round(a) c = Clip(b, lo, hi) y = Mul(c, s) }"
        ),
        PAIR,
    ),
    "codes that Cast, Sub and Mul dequantize": (
        (
            "<int8[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float z = {3}, float s = {0.3}> {"
            " a = Cast <to = 1> (w) b = Sub(a, z) c = Mul(b, s) y = Add(x, c) }"
        ),
        "DequantizeLinear Add",
    ),
    "com.microsoft": (
        (
            "<float s = {0.05}, int8 z = {0}> {"
            " q = com.microsoft.QuantizeLinear(x, s, z) y = com.microsoft.DequantizeLinear(q, s, z) }"
        ),
        PAIR,
    ),
    "a computed scale": (
        (
            "<float a = {0.5}, float b = {0.1}, int8 z = {0}> {"
            " s = Mul(a, b) q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"
        ),
        PAIR,
    ),
    "uint8 around 128": (
        "<float s = {0.05}, uint8 z = {128}> { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }",
        PAIR,
    ),
}

FORGETS_THE_SIGN_OF_ZEROS = {"div round clip mul", "narrow range", "a scale for each channel"}
"""Round keeps the sign of zeros where no Cast or zero point comes after it; codes do not."""


def model_of(body: str) -> Model:
    return Model(onnx.parser.parse_model(f"{HEADER} g (float[2,3,4] x) => (float[2,3,4] y) {body}"))


def operators(model: Model) -> str:
    return " ".join(node.op_type for node in model.proto.graph.node)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_becomes_a_pair_that_makes_the_same(name: str):
    body, expected = FORMS[name]

    found = normalized_model(model_of(body), DataRequest(samples=8))
    normalized, done = found.model, found.report

    assert done.changes
    assert operators(normalized) == expected
    assert all(output.equal for output in done.outputs), done.outputs
    assert {change.label for change in done.changes} == {"unsafe" if name in FORGETS_THE_SIGN_OF_ZEROS else "safe"}
    assert ("sign of zeros" in done.changes[0].proof) == (name in FORGETS_THE_SIGN_OF_ZEROS)
    assert not normalized_model(normalized, DataRequest()).report.changes
    assert not any(node.domain for node in normalized.proto.graph.node)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "<float s = {0.05}, float t = {0.06}, float lo = {-128}, float hi = {127}> {"
            " a = Div(x, s) b = Round(a) c = Clip(b, lo, hi) y = Mul(c, t) }",
            id="two scales",
        ),
        pytest.param(
            "<float s = {0.05}, float lo = {-100}, float hi = {100}> {"
            " a = Div(x, s) b = Round(a) c = Clip(b, lo, hi) y = Mul(c, s) }",
            id="no range of codes",
        ),
        pytest.param("<float s = {0.05}> { a = Div(x, s) b = Round(a) y = Mul(b, s) }", id="no clip"),
        pytest.param(
            "<float s = {0.05}, float lo = {-128}, float hi = {127}> {"
            " a = Div(x, s) b = Round(a) c = Clip(b, lo, hi) d = Mul(c, s) y = Add(c, d) }",
            id="the codes are read",
        ),
    ],
)
def test_what_is_no_pair_stays(body: str):
    model = model_of(body)

    found = normalized_model(model, DataRequest())
    normalized, done = found.model, found.report

    assert not done.changes
    assert normalized.proto == model.proto


class Reader(CalibrationDataReader):
    def __init__(self, folder: str) -> None:
        arrays = np.load(SAMPLES / folder / "calibration.npz")
        self._samples = iter([{name: arrays[name][i : i + 1] for name in arrays.files} for i in range(16)])

    def get_next(self) -> dict[str, Any] | None:
        return next(self._samples, None)


@pytest.mark.parametrize(
    ("folder", "gone", "exact"), [("digits_cnn", "QLinearConv", True), ("digits_transformer", "QLinearMatMul", False)]
)
def test_the_qoperator_format_of_onnx_runtime(folder: str, gone: str, exact: bool, tmp_path: Path):
    source = tmp_path / "qoperator.onnx"
    quantize_static(SAMPLES / folder / "model.onnx", source, Reader(folder), quant_format=QuantFormat.QOperator)
    assert gone in {node.op_type for node in onnx.load(source).graph.node}

    report = normalize_model(source, tmp_path / "out.onnx", data=DataRequest(path=SAMPLES / folder / "calibration.npz"))

    found = {node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node}
    assert gone not in found
    assert not {op_type for op_type in found if op_type.startswith(("QLinear", "QGemm"))}
    assert {"QuantizeLinear", "DequantizeLinear"} <= found
    (logits,) = report.repaired.outputs
    assert logits.exact == exact
    assert exact or logits.sqnr_db > 37  # it is 41.0: QLinear kernels round in other places


def test_a_softmax_whose_axis_means_something_else_stays():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>'
        " g (float[2,3,4] x) => (float[2,3,4] y) <float s = {0.1}, uint8 z = {0}> {"
        " q = QuantizeLinear(x, s, z) p = com.microsoft.QLinearSoftmax <axis = 1, opset = 11> (q, s, z, s, z)"
        " y = DequantizeLinear(p, s, z) }"
    )

    found = normalized_model(Model(model), DataRequest())
    normalized, done = found.model, found.report

    assert [node.op_type for node in normalized.proto.graph.node] == [node.op_type for node in model.graph.node]
    assert "has another meaning" in " ".join(refusal.reason for refusal in done.refused)


def test_a_float_model_stays_as_it_is():
    rich = rich_model()
    (fused,) = [node for node in rich.graph.node if node.domain == "com.microsoft"]
    fused.domain, fused.op_type = "", "MatMul"
    fused.ClearField("attribute")
    model = Model(rich)

    found = normalized_model(model, DataRequest())
    normalized, done = found.model, found.report

    assert done == Repaired()
    assert normalized.proto == model.proto


def test_every_form_has_a_module():
    assert {"decomposed", "microsoft-domain", "qlinear-conv", "qlinear-matmul", "signed-codes"} <= set(forms.names())
