"""Whole models as exporters write them, normalized and then made symmetric: the outputs against ONNX Runtime."""

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper
from support.small import run

from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting.repair.proof import NAN_INPUTS
from qdqtool.linting.rules import RuleContext
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

RNG = np.random.default_rng(5)
X = RNG.normal(size=(1, 3, 6, 6)).astype(np.float32)


def model(text: str, **constants: np.ndarray) -> Model:
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(each), name) for name, each in constants.items())
    return Model(proto)


def normalized(given: Model, tmp_path) -> tuple[onnx.ModelProto, list[tuple[str, str]]]:
    done = normalized_model(given, DataRequest(samples=2))
    save_model(done.model, tmp_path / "m.onnx")
    return onnx.load(tmp_path / "m.onnx"), [(change.code, change.label) for change in done.report.changes]


def kinds(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


BREVITAS = """
<ir_version: 8, opset_import: ["": 17]>
agraph (float[1,3,6,6] x) => (float[1,4,6,6] y) {
    q = QuantizeLinear (x, xs, z)
    qc = Clip (q, low, high)
    xd = DequantizeLinear (qc, xs, z)
    wc = Clip (w, low, high)
    wd = DequantizeLinear <axis = 0> (wc, ws, wz)
    y = Conv <pads = [1, 1, 1, 1]> (xd, wd)
}"""
QCDQ = {
    "xs": np.float32(0.02),
    "z": np.int8(0),
    "low": np.int8(-7),
    "high": np.int8(7),
    "ws": np.float32([0.1, 0.2, 0.3, 0.05]),
    "wz": np.zeros(4, np.int8),
}


def test_brevitas_keeps_no_clip_of_codes(tmp_path):
    codes = RNG.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8)
    given = model(BREVITAS, w=codes, **QCDQ)
    proto, changes = normalized(given, tmp_path)

    assert sorted(changes) == [("clipped-codes", "safe"), ("stored-codes", "safe")]
    assert sorted(kinds(proto)) == ["Clip", "Conv", "DequantizeLinear", "DequantizeLinear", "QuantizeLinear"]
    (clip,) = [node for node in proto.graph.node if node.op_type == "Clip"]
    assert clip.input[0] == "x"
    assert run(proto, {"x": X})[0].tobytes() == run(given.proto, {"x": X})[0].tobytes()
    # ONNX does not define the code of NaN, and the proof says that only NaN may give other results.
    done = normalized_model(given, DataRequest(samples=2)).report
    assert [(change.code, change.proof.endswith(NAN_INPUTS)) for change in done.changes] == [
        ("clipped-codes", True),
        ("stored-codes", False),
    ]


def test_brevitas_as_dynamo_exports_it_stores_the_clipped_codes(tmp_path):
    text = BREVITAS.replace("wc = Clip (w,", "wq = QuantizeLinear <axis = 0> (w, ws, wz) wc = Clip (wq,")
    weights = RNG.normal(size=(4, 3, 3, 3)).astype(np.float32)
    given = model(text, w=weights, **QCDQ)
    proto, changes = normalized(given, tmp_path)

    assert changes == [("clipped-codes", "safe")] * 2
    (weight,) = [node for node in proto.graph.node if node.op_type == "DequantizeLinear" and node.attribute]
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    exact = weights.astype(np.float64) / QCDQ["ws"].astype(np.float64).reshape(4, 1, 1, 1)
    np.testing.assert_array_equal(stored[weight.input[0]], np.clip(np.round(exact), -7, 7))
    assert run(proto, {"x": X})[0].tobytes() == run(given.proto, {"x": X})[0].tobytes()


FX = """
<ir_version: 8, opset_import: ["": 17]>
agraph (float[1,3,6,6] x) => (float[1,4,6,6] y) {
    xs2 = Identity (xs)
    z2 = Identity (z)
    q = QuantizeLinear (x, xs, z)
    qc = Cast <to = 2> (q)
    xd = DequantizeLinear (qc, xs2, z2)
    wd = DequantizeLinear <axis = 0> (w, ws, wz)
    c = ConstantOfShape <value = int32[1] {0}> (n)
    bz = Cast <to = 6> (c)
    bd = DequantizeLinear <axis = 0> (b, bs, bz)
    o = Conv <pads = [1, 1, 1, 1]> (xd, wd, bd)
    r = Relu (o)
    rq = QuantizeLinear (r, ys, yz)
    rc = Cast <to = 2> (rq)
    y = DequantizeLinear (rc, ys, yz)
}"""
SCALES = np.float32([0.01, 0.02, 0.03, 0.005])
PYTORCH = {
    "xs": np.float32(0.025),
    "z": np.uint8(100),
    "w": RNG.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8),
    "ws": SCALES,
    "wz": np.zeros(4, np.int8),
    "n": np.int64([4]),
    "b": RNG.integers(-900, 900, 4).astype(np.int32),
    "bs": SCALES * np.float32(0.025),
    "ys": np.float32(0.05),
    "yz": np.uint8(0),
}


def test_fx_export_of_pytorch_keeps_pairs_alone(tmp_path):
    given = model(FX, **PYTORCH)
    proto, changes = normalized(given, tmp_path)

    assert {code for code, _ in changes} == {"same-type-cast", "computed-scale", "float-bias"}
    assert {label for _, label in changes} == {"safe"}
    # TensorRT reads zero points through an Identity, so that one stays.
    expected = ["Conv", *["DequantizeLinear"] * 3, "Identity", *["QuantizeLinear"] * 2, "Relu"]
    assert sorted(kinds(proto)) == expected
    assert run(proto, {"x": X})[0].tobytes() == run(given.proto, {"x": X})[0].tobytes()


def test_fx_export_of_pytorch_becomes_symmetric():
    given = model(FX, **PYTORCH)
    context = RuleContext(fix_model(given, FixRequest(unsafe=True)).model)

    zeros = [context.array(entry.zero_point) for entry in context.qdq.nodes]
    assert [(str(zero.dtype), bool(zero.any())) for zero in zeros if zero is not None] == [("int8", False)] * 5
