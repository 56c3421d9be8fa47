"""The target tables against the judges they describe."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.ort_verdict import ort_refuses
from support.trt_verdict import TrtOracle

from qdqtool.errors import ArgumentError
from qdqtool.models import targets
from qdqtool.numerics import formats

TYPES = [number for name, number in TensorProto.DataType.items() if name not in {"UNDEFINED", "STRING"}]


def pair(quantized: int, opset: int = 23) -> onnx.ModelProto:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=quantized),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy")
    scale = onnx.numpy_helper.from_array(np.float32(0.1), "s")
    graph = helper.make_graph(nodes, "g", [x], [y], [scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


def test_the_public_ids():
    assert targets.names() == ("onnx", "ort-cpu", "tensorrt", "tensorrt-rtx")
    assert targets.DEFAULT in targets.names()
    assert all(targets.get(name).id == name for name in targets.names())


def test_an_unknown_target_is_refused_with_a_suggestion():
    legal = "legal: onnx, ort-cpu, tensorrt, tensorrt-rtx, tensorrt-10.0 to tensorrt-11.4"
    with pytest.raises(ArgumentError, match=f"{legal}; did you mean 'tensorrt'"):
        targets.get("tensort")


@pytest.mark.parametrize(
    ("number", "name"), [(1, "float32"), (11, "float64"), (16, "bfloat16"), (17, "float8e4m3fn"), (99, "type 99")]
)
def test_type_names(number: int, name: str):
    assert targets.type_name(number) == name


@pytest.mark.parametrize("name", formats.names())
def test_formats_and_targets_spell_types_alike(name: str):
    assert targets.type_name(formats.get(name).onnx_type) == name


@pytest.mark.parametrize("number", [n for n in TYPES if targets.type_name(n) in targets.get("onnx").quantize_types])
def test_ort_runs_the_pairs_of_its_table(number: int):
    name = targets.type_name(number)
    first = formats.get(name).first_opset.quantize

    assert first is not None
    runs = ort_refuses(pair(number, max(first, 21))) is None
    assert runs == (name in targets.get("ort-cpu").quantize_types)


@pytest.mark.builder
def test_tensorrt_for_rtx_imports_the_initializers_of_its_table():
    oracle = TrtOracle()
    legal = targets.get("tensorrt-rtx").initializer_types
    try:
        for number in TYPES:
            model = pair(TensorProto.INT8)
            array = np.ones(2).astype(helper.tensor_dtype_to_np_dtype(number))
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, "unused"))
            assert legal is not None
            assert oracle.judge(model).accepted == (targets.type_name(number) in legal), targets.type_name(number)
    finally:
        oracle.close()


@pytest.mark.builder
def test_tensorrt_for_rtx_takes_the_pairs_of_its_table():
    oracle = TrtOracle()
    target = targets.get("tensorrt-rtx")
    try:
        for name in sorted(targets.get("onnx").quantize_types):
            accepted = oracle.judge(pair(formats.get(name).onnx_type)).accepted
            assert accepted == (name in target.quantize_types), name
    finally:
        oracle.close()
