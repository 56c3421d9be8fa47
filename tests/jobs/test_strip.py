"""Strip: the float model comes back, exactly where the float weights were kept, with the Relus that others removed."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from support.metrics import sqnr_db
from support.paths import ROOT
from support.small import conv_model, make_model, run

from qdqtool.errors import ModelError
from qdqtool.jobs.insert import InsertOptions, insert_plan
from qdqtool.jobs.normalize import normalized_model
from qdqtool.jobs.strip import StripReport, strip_model
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model
from qdqtool.models.options import WeightStorage
from qdqtool.models.transforms.strip import strip_from
from qdqtool.samples.request import DataRequest

X = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
ENTRIES = [
    {"tensor": "x", "format": "int8", "scale": 0.05},
    {"tensor": "r", "format": "int8", "scale": 0.07},
    {"tensor": "y", "format": "int8", "scale": 0.09},
    {"tensor": "w", "format": "int8", "axis": 0, "scale": [0.01, 0.02, 0.03, 0.04]},
    {"tensor": "v", "format": "uint8", "scale": 0.02, "zero_point": 120},
]


def quantized(folder: Path, weights: WeightStorage) -> Path:
    (folder / "m.onnx").write_bytes(conv_model().SerializeToString(deterministic=True))
    (folder / "p.json").write_text(json.dumps({"schema_version": 1, "tensors": ENTRIES}))
    insert_plan(folder / "m.onnx", folder / "p.json", folder / "q.onnx", InsertOptions(weights=weights))
    return folder / "q.onnx"


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    (folder / "q.onnx").write_bytes(proto.SerializeToString())
    return folder / "q.onnx"


def strip(path: Path) -> tuple[onnx.ModelProto, StripReport]:
    report = strip_model(path, path.with_name("s.onnx"))
    result = onnx.load(path.with_name("s.onnx"))
    onnx.checker.check_model(result, full_check=True)
    return result, report


def test_kept_float_weights_come_back_byte_for_byte(tmp_path: Path) -> None:
    _, report = strip(quantized(tmp_path, WeightStorage.QDQ))
    assert (tmp_path / "s.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()
    assert report.kept == ()
    assert len(report.removed) == 5


def test_packed_weights_come_back_within_half_a_step_under_their_old_names(tmp_path: Path) -> None:
    stripped, report = strip(quantized(tmp_path, WeightStorage.PACKED))
    before = {tensor.name: numpy_helper.to_array(tensor) for tensor in conv_model().graph.initializer}
    after = {tensor.name: numpy_helper.to_array(tensor) for tensor in stripped.graph.initializer}
    assert after.keys() == before.keys()
    steps = np.array([0.01, 0.02, 0.03, 0.04], np.float32).reshape(4, 1, 1, 1)
    inside = np.abs(before["w"]) <= 127 * steps
    assert inside.any()
    assert np.all(np.abs(after["w"] - before["w"])[inside] <= (steps / 2 * (1 + 1e-6) + 0 * before["w"])[inside])
    assert [node.SerializeToString() for node in stripped.graph.node] == [
        node.SerializeToString() for node in conv_model().graph.node
    ]
    assert sorted(done.tensor for done in report.removed if done.kind == "weight") == ["v", "w"]


def test_codes_at_the_border_of_the_graph_stay_and_are_named(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "s", "z"], ["a"], name="from_input"),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["out"], name="to_output"),
    ]
    constants = {"s": np.float32(0.5), "z": np.int8(0)}
    path = saved(make_model(nodes, {"codes": (4,)}, {"out": (4,)}, constants, elem_type=TensorProto.INT8), tmp_path)
    stripped, report = strip(path)
    assert stripped.SerializeToString() == onnx.load(path).SerializeToString()
    assert sorted(rest.node for rest in report.kept) == ["from_input", "to_output"]


def qdq_chain(dq_outputs: tuple[str, ...], outputs: tuple[str, ...], double: bool = False) -> onnx.ModelProto:
    """x -> Relu -> r -> Q -> one DQ for each name; a Neg reads the first that is no output."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q"])]
    nodes += [helper.make_node("DequantizeLinear", ["q", "s", "z"], [name]) for name in dq_outputs]
    if double:
        nodes.append(helper.make_node("QuantizeLinear", [dq_outputs[0], "s", "z"], ["q2"]))
        nodes.append(helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["twice"]))
    inner = next((name for name in dq_outputs if name not in outputs), None)
    if inner:
        nodes.append(helper.make_node("Neg", ["twice" if double else inner], ["n"]))
    constants = {"s": np.asarray(np.float32(0.5)), "z": np.asarray(np.int8(0))}
    return make_model(nodes, {"x": (4,)}, dict.fromkeys(outputs, (4,)), constants)


@pytest.mark.parametrize(
    ("dq_outputs", "outputs", "double"),
    [
        (("a",), ("a",), False),
        (("a", "b"), ("n", "b"), False),
        (("a", "b"), ("n", "r", "b"), False),
        (("a", "b"), ("b", "a"), False),
        (("a",), ("n",), True),
    ],
)
def test_outputs_forks_and_double_pairs(
    tmp_path: Path, dq_outputs: tuple[str, ...], outputs: tuple[str, ...], double: bool
) -> None:
    stripped, report = strip(saved(qdq_chain(dq_outputs, outputs, double), tmp_path))
    assert report.kept == ()
    assert not {"QuantizeLinear", "DequantizeLinear"} & {node.op_type for node in stripped.graph.node}
    x = np.array([0.3, -1.0, 2.2, 0.04], np.float32)
    relu = np.maximum(x, 0)
    expected = [-relu if name == "n" else relu for name in outputs]
    assert [out.name for out in stripped.graph.output] == list(outputs)
    assert all(np.array_equal(a, b) for a, b in zip(run(stripped, {"x": x}), expected, strict=True))


def bounded_model(scale: float, zero_point: np.generic, *, opset: int = 17, output: str = "y") -> onnx.ModelProto:
    """x -> MatMul(w) -> Q -> DQ -> d -> Neg -> y."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["q"], name="bounds"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Neg", ["d"], ["y"]),
    ]
    constants = {"w": np.eye(4, dtype=np.float32), "s": np.asarray(np.float32(scale)), "z": np.asarray(zero_point)}
    return make_model(nodes, {"x": (4,)}, {output: (4,)}, constants, opset=opset)


X4 = np.array([-20, -0.3, 0.5, 20], np.float32)


@pytest.mark.parametrize(
    ("scale", "zero_point", "put_back"),
    [
        (0.02, np.uint8(0), ("Relu", None, None)),
        (0.02, np.int8(-128), ("Relu", None, None)),
        (6 / 255, np.uint8(0), ("Clip", 0.0, 6.0)),
        (6 / 255, np.int8(-128), ("Clip", 0.0, 6.0)),
        (20 / 65535, np.uint16(0), ("Clip", 0.0, 20.0)),
        (2 / 255, np.int8(0), ("Clip", -1.0, 1.0)),
        (3 / 255, np.uint8(85), ("Clip", -1.0, 2.0)),
    ],
    ids=str,
)
@pytest.mark.parametrize(("opset", "output"), [(10, "y"), (17, "y"), (17, "d")])
def test_the_relu_or_clip_whose_work_the_range_did_is_put_back(
    tmp_path: Path, scale: float, zero_point: np.generic, put_back: tuple[object, ...], opset: int, output: str
) -> None:
    bounds = (0, np.inf) if put_back[0] == "Relu" else put_back[1:]
    opset = max(opset, 21 if zero_point.dtype == np.uint16 else 0)
    stripped, report = strip(saved(bounded_model(scale, zero_point, opset=opset, output=output), tmp_path))
    assert [(made.op_type, made.low, made.high) for made in report.restored] == [put_back]
    assert (report.warnings, report.kept) == ((), ())
    [made] = run(stripped, {"x": X4})
    assert np.allclose(made, np.clip(X4, *bounds) * (-1 if output == "y" else 1))
    assert "Identity" not in {node.op_type for node in stripped.graph.node}


@pytest.mark.parametrize(
    ("before", "scale", "zero_point"),
    [
        ("Relu", 0.02, np.uint8(0)),
        ("Sigmoid", 1 / 255, np.uint8(0)),
        ("Tanh", 2 / 255, np.int8(0)),
        ("Neg", 0.05, np.int8(0)),
        ("Neg", 0.0471, np.uint8(117)),
        (None, 0.02, np.uint8(0)),
        (None, 1 / 255, np.uint8(0)),
    ],
    ids=str,
)
def test_a_range_that_only_holds_what_was_seen_is_no_clip(
    tmp_path: Path, before: str | None, scale: float, zero_point: np.generic
) -> None:
    nodes = [helper.make_node(before, ["x"], ["r"])] if before else []
    nodes += [
        helper.make_node("QuantizeLinear", ["r" if before else "x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Exp", ["d"], ["y"]),
    ]
    constants = {"s": np.asarray(np.float32(scale)), "z": np.asarray(zero_point)}
    _, report = strip(saved(make_model(nodes, {"x": (4,)}, {"y": (4,)}, constants), tmp_path))
    assert (report.restored, report.warnings) == ((), ())


def test_a_clip_that_is_there_is_not_put_behind_itself(tmp_path: Path) -> None:
    proto = bounded_model(6 / 255, np.uint8(0))
    proto.graph.node.insert(1, helper.make_node("Clip", ["m", "low", "high"], ["c"]))
    proto.graph.node[2].input[0] = "c"
    proto.graph.initializer.extend(numpy_helper.from_array(np.float32(v), n) for n, v in (("low", 0), ("high", 6)))
    assert strip(saved(proto, tmp_path))[1].restored == ()


def test_one_relu_serves_all_pairs_of_a_q(tmp_path: Path) -> None:
    proto = bounded_model(0.02, np.uint8(0))
    proto.graph.node.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["second"]))
    proto.graph.output.append(helper.make_tensor_value_info("second", TensorProto.FLOAT, (4,)))
    stripped, report = strip(saved(proto, tmp_path))
    assert [node.op_type for node in stripped.graph.node] == ["MatMul", "Relu", "Neg"]
    assert [made.tensor for made in report.restored] == ["second"]


def test_a_float16_relu6_gets_float16_bounds(tmp_path: Path) -> None:
    proto = bounded_model(6 / 255, np.uint8(0), opset=19)
    for tensor in proto.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    stripped, _ = strip(saved(proto, tmp_path))
    assert -run(stripped, {"x": X4.astype(np.float16)})[0].max(initial=-9) == 0
    assert run(stripped, {"x": X4.astype(np.float16)})[0].min() == -6


def test_what_cannot_be_put_back_is_refused_unless_asked_for(tmp_path: Path) -> None:
    proto = bounded_model(0.02, np.uint8(0))
    scale, zero_point = np.full(4, 0.02, np.float32), np.array([0, 0, 128, 128], np.uint8)
    del proto.graph.initializer[1:]
    proto.graph.initializer.extend([numpy_helper.from_array(scale, "s"), numpy_helper.from_array(zero_point, "z")])
    for node in proto.graph.node[1:3]:
        node.attribute.append(helper.make_attribute("axis", 0))
    path = saved(proto, tmp_path)
    with pytest.raises(ModelError, match=r"bounds may replace .*: it cuts off negative values in some channels") as e:
        strip(path)
    assert "--drop-clipping" in str(e.value.hint)
    assert not (tmp_path / "s.onnx").exists()
    report = strip_model(path, tmp_path / "s.onnx", drop_clipping=True)
    assert len(report.warnings) == 1


def test_a_pair_behind_a_pair_may_be_an_output(tmp_path: Path) -> None:
    proto = qdq_chain(("a",), ("twice",), double=True)
    del proto.graph.node[-1]
    stripped, _ = strip(saved(proto, tmp_path))
    assert run(stripped, {"x": X4})[0].tolist() == [0, 0, 0.5, 20]


def test_a_clip_whose_bounds_the_caller_of_its_function_gives_may_be_negative() -> None:
    clip = helper.make_node("Clip", ["a"], ["c"])
    clip.attribute.add(name="min", type=onnx.AttributeProto.FLOAT, ref_attr_name="low")
    stored = {"s": np.float32(0.02), "z": np.uint8(0)}
    nodes = [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(v)) for name, v in stored.items()]
    nodes += [
        clip,
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
    ]
    imports = [helper.make_opsetid("", 10), helper.make_opsetid("com.example", 1)]
    function = helper.make_function("com.example", "F", ["a"], ["d"], nodes, imports[:1], attributes=["low"])
    model = make_model(
        [helper.make_node("F", ["x"], ["y"], domain="com.example", low=-1.0)], {"x": (4,)}, {"y": (4,)}, {}
    )
    del model.opset_import[:]
    model.opset_import.extend(imports)
    model.functions.append(function)
    assert [made.op_type for made in strip_from(Model(model)).report.restored] == ["Relu"]


def test_a_weight_whose_scale_is_nan_keeps_its_dq() -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scales"], ["w"], name="dq", axis=1),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    constants = {"codes": np.ones((4, 2), np.int8), "scales": np.array([0.5, np.nan], np.float32)}
    result = strip_from(Model(make_model(nodes, {"x": ("N", 4)}, {"y": ("N", 2)}, constants)))
    assert result.report.removed == ()
    assert [(kept.node, "not finite" in kept.reason) for kept in result.report.kept] == [("dq", True)]


WAYS: Mapping[str, dict[str, Any]] = {
    "defaults": {},
    "uint8": {"activation_type": QuantType.QUInt8, "per_channel": True},
    "reduce_range": {"activation_type": QuantType.QUInt8, "per_channel": True, "reduce_range": True},
    "QOperator": {"activation_type": QuantType.QUInt8, "quant_format": QuantFormat.QOperator, "per_channel": True},
}
SAMPLES = ROOT / "sample_models"
ENOUGH_DB = 25
"""What the rounding of 8-bit weights leaves at least."""


class Feeds(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: list[dict[str, np.ndarray]]) -> None:
        self._samples: Iterator[dict[str, np.ndarray]] = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._samples, None)


def stripped(source: Path, samples: list[dict[str, np.ndarray]], folder: Path, way: str) -> onnx.ModelProto:
    """The model, quantized by ONNX Runtime and stripped again."""
    quantize_static(source, folder / "q.onnx", Feeds(samples), **WAYS[way])
    quantized: Model = load_model(folder / "q.onnx")
    if way == "QOperator":
        quantized = normalized_model(quantized, DataRequest(samples=1)).model
    report = strip_model(quantized, folder / "s.onnx")
    assert report.warnings == ()
    return onnx.load(folder / "s.onnx")


def worst_db(source: Path, found: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> float:
    expected = run(onnx.load(source), feeds)
    return min(sqnr_db(left, right) or 0.0 for left, right in zip(expected, run(found, feeds), strict=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["digits_cnn", "digits_transformer"])
def test_a_sample_keeps_what_its_weights_keep(name: str, way: str, tmp_path: Path) -> None:
    source = SAMPLES / name / "model.onnx"
    with np.load(SAMPLES / name / "calibration.npz") as data:
        sample = {key: data[key][:16] for key in data.files}
    found = stripped(source, [sample], tmp_path, way)
    assert worst_db(source, found, sample) >= ENOUGH_DB
    # Operators such as QGemm have no Q/DQ form and stay, with ranges that hold what calibration saw.
    if way != "QOperator":
        random = np.random.default_rng(1)
        noise = {key: random.uniform(0, 1, x.shape).astype(np.float32) for key, x in sample.items()}
        assert worst_db(source, found, noise) >= ENOUGH_DB


@pytest.mark.parametrize("way", WAYS)
def test_relu6_comes_back(way: str, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    weights = {f"w{i}": random.normal(size=(8, 8, 3, 3)).astype(np.float32) / 2 for i in range(3)}
    weights |= {"low": np.float32(0), "high": np.float32(6)}
    nodes = []
    for i in range(3):
        nodes.append(helper.make_node("Conv", [f"r{i}" if i else "x", f"w{i}"], [f"c{i}"], pads=[1] * 4))
        nodes.append(helper.make_node("Clip", [f"c{i}", "low", "high"], [f"r{i + 1}"]))
    nodes.append(helper.make_node("GlobalAveragePool", ["r3"], ["y"]))
    model = make_model(nodes, {"x": (1, 8, 8, 8)}, {"y": (1, 8, 1, 1)}, weights)
    source = tmp_path / "m.onnx"
    onnx.save(model, source)
    samples = [{"x": random.normal(size=(1, 8, 8, 8)).astype(np.float32)} for _ in range(4)]
    found = stripped(source, samples, tmp_path, way)
    assert [node.op_type for node in found.graph.node].count("Clip") == 3
    bounds = {float(numpy_helper.to_array(t)) for t in found.graph.initializer if not t.dims}
    assert bounds == {0.0, 6.0}
    assert worst_db(source, found, {"x": 5 * samples[0]["x"]}) >= ENOUGH_DB
