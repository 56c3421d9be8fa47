"""Insert: the pairs stand where the plan says, mean what ONNX means, and nothing else changes."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.small import conv_model, make_model, matmul_model, run

import qdqtool
from qdqtool.errors import GateError, OutputError, UsageError
from qdqtool.jobs import insert as insert_module
from qdqtool.jobs.insert import InsertOptions, InsertReport, insert_plan
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.options import ExternalData, WeightStorage
from qdqtool.models.transforms.opset import upgrade_opset
from qdqtool.samples.request import DataRequest

X = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
INT8 = {"format": "int8", "scale": 0.05}
W_SCALES = [0.01, 0.02, 0.03, 0.04]


def insert(
    folder: Path, model: onnx.ModelProto, *entries: dict[str, Any], weights: WeightStorage = WeightStorage.PACKED
) -> tuple[onnx.ModelProto, InsertReport]:
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    (folder / "p.json").write_text(json.dumps({"schema_version": 1, "tensors": list(entries)}))
    report = insert_plan(folder / "m.onnx", folder / "p.json", folder / "q.onnx", InsertOptions(weights=weights))
    result = onnx.load(folder / "q.onnx")
    onnx.checker.check_model(result, full_check=True)
    return result, report


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def array(model: onnx.ModelProto, name: str) -> np.ndarray:
    return next(numpy_helper.to_array(t) for t in model.graph.initializer if t.name == name)


def fake_quantize(x: np.ndarray, scale: float, zero_point: int = 0, low: int = -128, high: int = 127) -> np.ndarray:
    codes = np.clip(np.rint(x / np.float32(scale)) + zero_point, low, high)
    return ((codes - zero_point) * np.float32(scale)).astype(np.float32)


def test_an_activation_gets_one_pair(tmp_path: Path) -> None:
    float_model = conv_model()
    model, report = insert(tmp_path, float_model, {"tensor": "x", **INT8})
    assert ops(model) == ["QuantizeLinear", "DequantizeLinear", "Conv", "Relu", "Conv"]
    assert model.graph.node[2].input[0] == "x_DequantizeLinear_Output"
    assert run(model, X)[0].tobytes() == run(float_model, {"x": fake_quantize(X["x"], 0.05)})[0].tobytes()
    assert [(pair.tensor, pair.kind, pair.consumers) for pair in report.quantized] == [("x", "activation", ("conv1",))]


def test_packed_and_qdq_weights_compute_the_same_bits(tmp_path: Path) -> None:
    entry = {"tensor": "w", "format": "int8", "axis": 0, "scale": W_SCALES}
    packed, report = insert(tmp_path, conv_model(), entry)
    qdq, _ = insert(tmp_path, conv_model(), entry, weights=WeightStorage.QDQ)
    assert ops(packed) == ["DequantizeLinear", "Conv", "Relu", "Conv"]
    assert ops(qdq) == ["QuantizeLinear", "DequantizeLinear", "Conv", "Relu", "Conv"]
    assert run(packed, X)[0].tobytes() == run(qdq, X)[0].tobytes()
    assert "w" not in [tensor.name for tensor in packed.graph.initializer]
    assert array(packed, "w_quantized").dtype == np.int8
    assert report.quantized[0].kind == "weight"


@pytest.mark.parametrize(
    ("fmt", "keys", "numpy_type"),
    [
        ("int8", {"axis": 0, "scale": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]}, np.int8),
        ("int8", {"axis": 1, "scale": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}, np.int8),
        ("uint8", {"scale": 0.02, "zero_point": 128}, np.uint8),
        ("int4", {"scale": 0.25, "axis": 0, "block_size": 4}, ml_dtypes.int4),
        ("int4", {"scale": 0.25, "axis": 1, "block_size": 4}, ml_dtypes.int4),
        ("float8e4m3fn", {"scale": 0.01}, ml_dtypes.float8_e4m3fn),
    ],
)
def test_packed_codes_are_those_of_the_reference(
    tmp_path: Path, fmt: str, keys: dict[str, Any], numpy_type: type[np.generic]
) -> None:
    entry = {"tensor": "w", "format": fmt, **keys}
    packed, _ = insert(tmp_path, matmul_model(21), entry)
    qdq, _ = insert(tmp_path, matmul_model(21), entry, weights=WeightStorage.QDQ)
    quantizer = qdq.graph.node[0]
    assert quantizer.op_type == "QuantizeLinear"
    qdq.graph.output.append(onnx.ValueInfoProto(name=quantizer.output[0]))
    expected = ReferenceEvaluator(qdq).run([quantizer.output[0]], {"x": np.zeros((1, 8), np.float32)})[0]
    codes = array(packed, "w_quantized")
    assert codes.dtype == numpy_type
    assert codes.tobytes() == np.asarray(expected).tobytes()


def test_a_shared_tensor_gets_one_pair_and_named_consumers_alone_read_it(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="first"), helper.make_node("Abs", ["x"], ["b"], name="second")]
    model = make_model(nodes, {"x": (4,)}, {"a": (4,), "b": (4,)}, {})
    both, _ = insert(tmp_path, model, {"tensor": "x", **INT8})
    assert ops(both).count("QuantizeLinear") == 1
    assert [node.input[0] for node in both.graph.node[2:]] == ["x_DequantizeLinear_Output"] * 2
    one, _ = insert(tmp_path, model, {"tensor": "x", "consumers": ["b"], **INT8})
    inputs = {node.name: node.input[0] for node in one.graph.node}
    assert inputs["first"] == "x"
    assert inputs["second"] == "x_DequantizeLinear_Output"


def test_a_graph_output_keeps_its_name_and_becomes_quantized(tmp_path: Path) -> None:
    float_model = conv_model()
    model, _ = insert(tmp_path, float_model, {"tensor": "y", **INT8})
    assert [output.name for output in model.graph.output] == ["y"]
    assert model.graph.node[-1].op_type == "DequantizeLinear"
    assert np.array_equal(run(model, X)[0], fake_quantize(run(float_model, X)[0], 0.05))


def test_an_output_that_others_read_too_is_quantized_for_all(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="relu"), helper.make_node("Exp", ["a"], ["b"], name="exp")]
    float_model = make_model(nodes, {"x": (4,)}, {"a": (4,), "b": (4,)}, {})
    feeds = {"x": np.array([0.3, -1.0, 2.22, 0.04], np.float32)}
    whole, _ = insert(tmp_path, float_model, {"tensor": "a", **INT8})
    a = fake_quantize(np.maximum(feeds["x"], 0), 0.05)
    assert np.array_equal(run(whole, feeds)[0], a)
    assert np.array_equal(run(whole, feeds)[1], run(float_model, {"x": a})[1])
    inner, _ = insert(tmp_path, float_model, {"tensor": "a", "consumers": ["exp"], **INT8})
    assert np.array_equal(run(inner, feeds)[0], np.maximum(feeds["x"], 0))
    assert np.array_equal(run(inner, feeds)[1], run(float_model, {"x": a})[1])


def test_an_output_that_is_an_input_is_refused_with_a_hint(tmp_path: Path) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (4,)}, {"y": (4,), "x": (4,)}, {})
    with pytest.raises(UsageError, match="graph output that no node makes") as caught:
        insert(tmp_path, model, {"tensor": "x", **INT8})
    assert caught.value.hint == "name consumers to quantize only those uses"


def test_initializers_that_are_graph_inputs_stay_no_input_when_packed(tmp_path: Path) -> None:
    model = conv_model(opset=13, ir_version=3)
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, list(tensor.dims)))
    quantized, _ = insert(tmp_path, model, {"tensor": "w", "format": "int8", "axis": 0, "scale": W_SCALES})
    assert [value.name for value in quantized.graph.input] == ["x", "b", "v"]
    assert quantized.ir_version >= 4
    run(quantized, X)


def test_a_constant_node_is_packed_too(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.eye(8, dtype=np.float32) * 0.3, "ignored")
    nodes = [helper.make_node("Constant", [], ["w"], value=weight), helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = make_model(nodes, {"x": (1, 8)}, {"y": (1, 8)}, {})
    packed, _ = insert(tmp_path, model, {"tensor": "w", "format": "int8", "scale": 0.1})
    assert "Constant" not in ops(packed)
    assert np.array_equal(array(packed, "w_quantized"), np.eye(8, dtype=np.int8) * 3)


def behind_operators(*readers: onnx.NodeProto) -> onnx.ModelProto:
    """x[4,8] times a weight of which the file has float16 values in one row, and half of them."""
    nodes = [
        helper.make_node("Cast", ["flat"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["wide", "shape"], ["square"]),
        helper.make_node("Mul", ["square", "two"], ["w"], name="double"),
        helper.make_node("MatMul", ["x", "w"], ["y"], name="product"),
        *readers,
    ]
    flat = np.random.default_rng(8).normal(size=64).astype(np.float16)
    weights = {"flat": flat, "shape": np.array([8, 8]), "two": np.float32(2)}
    outputs = {"y": (4, 8), **{name: (8, 8) for node in readers for name in node.output}}
    return make_model(nodes, {"x": (4, 8)}, outputs, weights)


def test_a_weight_that_small_operators_make_is_packed_and_they_go(tmp_path: Path) -> None:
    entry = {"tensor": "w", "format": "int8", "axis": 1, "scale": [0.02 + 0.01 * column for column in range(8)]}
    feeds = {"x": np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)}
    packed, _ = insert(tmp_path, behind_operators(), entry)
    assert ops(packed) == ["DequantizeLinear", "MatMul"]
    assert {tensor.name for tensor in packed.graph.initializer} == {"w_quantized", "w_scale", "w_zero_point"}
    qdq, _ = insert(tmp_path, behind_operators(), entry, weights=WeightStorage.QDQ)
    assert run(packed, feeds)[0].tobytes() == run(qdq, feeds)[0].tobytes()


def test_operators_that_make_a_packed_weight_stay_for_who_else_reads_them(tmp_path: Path) -> None:
    other = helper.make_node("Identity", ["square"], ["z"])
    packed, _ = insert(tmp_path, behind_operators(other), {"tensor": "w", "format": "int8", "scale": 0.1})
    assert sorted(ops(packed)) == ["Cast", "DequantizeLinear", "Identity", "MatMul", "Reshape"]


def test_a_constant_and_what_is_made_of_it_are_packed_both(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["w", "two"], ["v"]),
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["a", "v"], ["y"]),
    ]
    weights = {"w": np.eye(4, dtype=np.float32) * 0.3, "two": np.float32(2)}
    model = make_model(nodes, {"x": (4, 4)}, {"y": (4, 4)}, weights)
    scales = ({"tensor": "w", "format": "int8", "scale": 0.1}, {"tensor": "v", "format": "int8", "scale": 0.2})
    packed, _ = insert(tmp_path, model, *scales)
    assert sorted(ops(packed)) == ["DequantizeLinear", "DequantizeLinear", "MatMul", "MatMul"]
    assert np.array_equal(array(packed, "v_quantized"), np.eye(4, dtype=np.int8) * 3)


def test_a_weight_that_others_read_as_float_stays(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Add", ["a", "w"], ["y"], name="sum"),
    ]
    model = make_model(nodes, {"x": (4, 4)}, {"y": (4, 4)}, {"w": np.eye(4, dtype=np.float32)})
    packed, _ = insert(tmp_path, model, {"tensor": "w", "consumers": ["product"], "format": "int8", "scale": 0.1})
    assert {tensor.name for tensor in packed.graph.initializer} >= {"w", "w_quantized"}


def test_float16_models_get_float16_scales_and_no_casts(tmp_path: Path) -> None:
    w = np.random.default_rng(2).normal(size=(8, 4)).astype(np.float16)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = make_model(nodes, {"x": (2, 8)}, {"y": (2, 4)}, {"w": w}, opset=13, elem_type=TensorProto.FLOAT16)
    entries = [{"tensor": "x", **INT8}, {"tensor": "w", "format": "int8", "axis": 1, "scale": W_SCALES}]
    quantized, report = insert(tmp_path, model, *entries)
    assert (report.opset_before, report.opset_after) == (13, 19)
    assert array(quantized, "x_scale").dtype == np.float16
    assert "Cast" not in ops(quantized)
    assert run(quantized, {"x": np.ones((2, 8), np.float16)})[0].dtype == np.float16


@pytest.mark.parametrize(
    ("opset", "entry", "expected"),
    [
        (9, {"tensor": "w", "format": "int8", "scale": 0.1}, 10),
        (10, {"tensor": "w", "format": "int8", "scale": [0.1] * 6, "axis": 1}, 13),
        (13, {"tensor": "w", "format": "float8e4m3fn", "scale": 0.1}, 19),
        (17, {"tensor": "w", "format": "int4", "scale": 0.1}, 21),
        (17, {"tensor": "w", "format": "int8", "scale": 0.1, "axis": 0, "block_size": 4}, 21),
        (22, {"tensor": "w", "format": "int8", "scale": 0.1}, 22),
    ],
)
def test_the_opset_rises_only_as_far_as_needed(
    tmp_path: Path, opset: int, entry: dict[str, Any], expected: int
) -> None:
    model, report = insert(tmp_path, matmul_model(opset), entry)
    assert report.opset_after == model.opset_import[0].version == expected
    run(model, {"x": np.ones((2, 8), np.float32)})


def test_external_data_in_external_data_out(tmp_path: Path) -> None:
    onnx.save(conv_model(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "p.json").write_text(json.dumps({"schema_version": 1, "tensors": [{"tensor": "x", **INT8}]}))
    report = insert_plan(tmp_path / "m.onnx", tmp_path / "p.json", tmp_path / "q.onnx")
    assert report.external_data == str(*tmp_path.glob("q.onnx.*.data"))
    assert np.array_equal(run(str(tmp_path / "q.onnx"), X)[0], run(conv_model(), {"x": fake_quantize(X["x"], 0.05)})[0])
    inline = insert_plan(
        tmp_path / "m.onnx",
        tmp_path / "p.json",
        tmp_path / "inline.onnx",
        InsertOptions(external_data=ExternalData.NEVER),
    )
    assert inline.external_data is None


def test_verify_runs_the_model_before_and_after_the_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.onnx").write_bytes(conv_model(opset=11).SerializeToString())
    entry = {"tensor": "w", "format": "int8", "axis": 0, "scale": W_SCALES}
    (tmp_path / "p.json").write_text(json.dumps({"schema_version": 1, "tensors": [entry]}))
    options = InsertOptions(verify=DataRequest(samples=2))
    report = insert_plan(tmp_path / "m.onnx", tmp_path / "p.json", tmp_path / "q.onnx", options)
    assert report.verified == "opset 11 and 13 give equal bits (outputs: 1, samples: 2)"
    (tmp_path / "q.onnx").unlink()
    monkeypatch.setattr(insert_module, "upgrade_opset", _broken_upgrade)
    with pytest.raises(GateError, match="from opset 11 to 13 changes output 'y'"):
        insert_plan(tmp_path / "m.onnx", tmp_path / "p.json", tmp_path / "q.onnx", options)
    assert not (tmp_path / "q.onnx").exists()


def _broken_upgrade(model: Model, version: int) -> Transformed[None]:
    upgraded = upgrade_opset(model, version)
    bias = next(tensor for tensor in upgraded.model.proto.graph.initializer if tensor.name == "b")
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + np.float32(1), "b"))
    return upgraded


def test_a_second_plan_on_the_same_loaded_model_is_independent(tmp_path: Path) -> None:
    from qdqtool.models.graph.io.load import load_model

    (tmp_path / "m.onnx").write_bytes(matmul_model().SerializeToString())
    loaded = load_model(tmp_path / "m.onnx")
    outputs = []
    for name, scale in (("a", 0.1), ("b", 0.2)):
        plan = {"schema_version": 1, "tensors": [{"tensor": "w", "format": "int8", "scale": scale}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(plan))
        insert_plan(loaded, tmp_path / f"{name}.json", tmp_path / f"{name}.onnx")
        outputs.append(array(onnx.load(tmp_path / f"{name}.onnx"), "w_quantized"))
    assert not np.array_equal(*outputs)
    assert loaded.payloads == {}


def test_output_mistakes_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(conv_model().SerializeToString())
    (tmp_path / "p.json").write_text(json.dumps({"schema_version": 1, "tensors": [{"tensor": "x", **INT8}]}))
    with pytest.raises(UsageError, match="also an input"):
        insert_plan(tmp_path / "m.onnx", tmp_path / "p.json", tmp_path / "m.onnx")
    with pytest.raises(OutputError, match="does not exist"):
        insert_plan(tmp_path / "m.onnx", tmp_path / "p.json", tmp_path / "no" / "q.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "p.json"]


def test_same_input_same_bytes(tmp_path: Path) -> None:
    entries = [{"tensor": "x", **INT8}, {"tensor": "w", "format": "int8", "axis": 0, "scale": W_SCALES}]
    insert(tmp_path, conv_model(), *entries)
    first = (tmp_path / "q.onnx").read_bytes()
    insert(tmp_path, conv_model(), *entries)
    assert (tmp_path / "q.onnx").read_bytes() == first


@pytest.mark.parametrize(
    ("factor", "word"), [(1.0, None), (0.001, "127 or more in magnitude"), (1000.0, "represents 0")]
)
def test_weights_that_the_plan_destroys_are_reported(tmp_path: Path, factor: float, word: str | None) -> None:
    float_model = conv_model()
    greatest = np.abs(array(float_model, "w")).max(axis=(1, 2, 3))
    scale = [float(value) * factor for value in greatest / 127]
    _, report = insert(tmp_path, float_model, {"tensor": "w", "format": "int8", "axis": 0, "scale": scale})
    assert [finding.code for finding in report.findings] == ([] if word is None else ["QN502"])
    assert word is None or word in report.findings[0].message


def test_a_plan_of_another_model_is_refused(tmp_path: Path) -> None:
    """Same names, other weights: the scales load and fit nothing."""
    (tmp_path / "m.onnx").write_bytes(conv_model().SerializeToString())
    other = conv_model()
    weight = next(tensor for tensor in other.graph.initializer if tensor.name == "w")
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * 100, "w"))
    (tmp_path / "other.onnx").write_bytes(other.SerializeToString())
    data = np.random.default_rng(1).normal(size=(8, 3, 8, 8)).astype(np.float32)
    words = {"save_plan": tmp_path / "p.json", "equalize": False}
    qdqtool.quantize_model(tmp_path / "m.onnx", data, tmp_path / "q.onnx", **words)
    again = insert_plan(tmp_path / "m.onnx", tmp_path / "p.json", tmp_path / "again.onnx")
    assert again.quantized
    with pytest.raises(UsageError, match=r"was made for another model than .*other\.onnx") as caught:
        insert_plan(tmp_path / "other.onnx", tmp_path / "p.json", tmp_path / "no.onnx")
    assert "`--force`" in (caught.value.hint or "")
    assert not (tmp_path / "no.onnx").exists()
    insert_plan(tmp_path / "other.onnx", tmp_path / "p.json", tmp_path / "no.onnx", InsertOptions(force=True))
