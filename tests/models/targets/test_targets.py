"""The target tables against the judges they describe."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.ort_verdict import ort_refuses
from support.qdq import constant
from support.trt_verdict import TrtOracle

from qdqtool.errors import ArgumentError
from qdqtool.models import targets
from qdqtool.models.targets import refusals, type_name
from qdqtool.numerics import formats
from qdqtool.numerics.affine import fake_quantize
from qdqtool.numerics.granularity import Blocked, Granularity, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme

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


# What a target refuses, and that the alternative it is told to take means what is claimed.


SIGNED_SCALE = "float8e4m3fn, with scales derived for its range"


def params(fmt: str, granularity: Granularity | None = None, zero: int | None = None, **keys: Any) -> QuantParams:
    found = formats.get(fmt)
    scale = np.asarray(0.25, keys.pop("dtype", np.float32))
    zero_point = None if zero is None else np.asarray(zero).astype(found.dtype)
    return QuantParams(QuantScheme(found, granularity or PerTensor(), zero_point is None, **keys), scale, zero_point)


def told(target: str, given: QuantParams, shape: tuple[int, ...] = (64, 32), data: str = "float32") -> list[str]:
    return [f"{r.reason} -> {r.alternative}" for r in refusals(targets.get(target), given, data, shape)]


SHIFTED = (
    "int8 with zero point 0 and a symmetric scale (int8 with zero point -28 and the same scale has exactly the same "
    "values, but only zero point 0 is taken)"
)
WHOLE = "blocks of 32, or a tensor padded to whole blocks"
EXACT = "zero point 0 and the same scale: exactly the same values"


@pytest.mark.parametrize("target", ["tensorrt", "tensorrt-rtx"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (params("int8"), []),
        (params("int4"), []),
        (params("float4e2m1"), []),
        (params("uint8", zero=128), [f"takes no uint8 -> int8 with {EXACT}"]),
        (params("uint4", zero=8), [f"takes no uint4 -> int4 with {EXACT}"]),
        (params("uint8", zero=100), [f"takes no uint8 -> {SHIFTED}"]),
        (
            params("int8", zero=5),
            ["takes no int8 with a zero point other than 0 -> zero point 0, with a symmetric scale derived for it"],
        ),
        (params("int16"), ["takes no int16 -> "]),
        (params("uint16", zero=32768), ["takes no uint16 -> "]),
        (params("int2"), ["takes no int2 -> int4, with scales derived for its range"]),
        (params("float8e5m2"), [f"takes no float8e5m2 -> {SIGNED_SCALE}"]),
        (params("float8e4m3fnuz"), [f"takes no float8e4m3fnuz -> {SIGNED_SCALE}"]),
        (params("float6e2m3"), ["takes no float6e2m3 -> "]),
        (
            params("int4", Blocked(0, 48)),
            [f"takes no shorter last block: 64 elements in blocks of 48 -> {WHOLE}"],
        ),
        (params("int4", Blocked(0, 1)), ["takes no blocks of 1 -> blocks of at least 2"]),
        (
            params("float8e4m3fn", Blocked(0, 32), dtype=ml_dtypes.float8_e8m0fnu),
            ["takes no scales in float8e8m0 -> scales in float32, which holds the same powers of two"],
        ),
        (
            params("int8", scale_scheme=QuantScheme(formats.get("uint8"), PerTensor())),
            ["takes no scales in uint8 -> scales in float32"],
        ),
    ],
)
def test_tensorrt(target: str, given: QuantParams, expected: list[str]) -> None:
    assert told(target, given) == expected


def test_tensorrt_takes_blocks_along_the_last_two_axes_only() -> None:
    given = params("int8", Blocked(0, 2))
    assert told("tensorrt", given, (4, 3, 2)) == [
        "takes no blocks along axis 0 of 3 dimensions -> blocks along axis 1 or 2"
    ]
    assert told("tensorrt", given, (4, 3)) == []
    assert told("tensorrt", given, (4,)) == []
    assert told("tensorrt", params("int4"), (3, 3)) == [
        "takes no int4 tensor with an odd number of elements -> a padded tensor, or int8"
    ]


def test_other_targets() -> None:
    assert told("onnx", params("uint8", zero=100)) == []
    assert told("onnx", params("float6e2m3", Blocked(0, 48))) == []
    assert told("ort-cpu", params("int16", zero=100)) == []
    assert told("ort-cpu", params("float4e2m1")) == ["takes no float4e2m1 -> "]
    assert told("ort-cpu", params("int8"), data="bfloat16") == ["quantizes no bfloat16 -> a model in float16, float32"]


@pytest.mark.parametrize(("unsigned", "zero"), [("uint8", 128), ("uint8", 100), ("uint4", 8), ("uint2", 1)])
def test_the_signed_format_gives_exactly_the_same_values(unsigned: str, zero: int) -> None:
    fmt, signed = formats.get(unsigned), formats.get(unsigned[1:])
    x = np.random.default_rng(0).normal(size=10_000).astype(np.float32) * 50
    scale = np.float32(0.3)
    shifted = np.asarray(zero - (1 << (fmt.bits - 1)), signed.dtype)
    one = fake_quantize(x, scale, fmt, PerTensor(), np.asarray(zero, fmt.dtype))
    other = fake_quantize(x, scale, signed, PerTensor(), shifted)
    assert one.tobytes() == other.tobytes()


@pytest.mark.builder
def test_the_real_builder_refuses_and_takes_the_same() -> None:
    oracle = TrtOracle()
    target = targets.get("tensorrt-rtx")
    cases = [
        ("int8", Blocked(0, 2), (4, 2, 4)),
        ("int8", Blocked(1, 2), (4, 2, 4)),
        ("int8", Blocked(0, 3), (5, 4)),  # of (4, 4) it would silently make blocks of 2
        ("int8", Blocked(0, 2), (4, 4)),
        ("int8", Blocked(0, 1), (4, 4)),
        ("int4", PerTensor(), (3, 3)),
        ("int4", PerTensor(), (3, 4)),
    ]
    try:
        for name, granularity, shape in cases:
            told_to_refuse = bool(list(refusals(target, params(name, granularity), "float32", shape)))
            accepted = oracle.judge(_weight(name, granularity, shape)).accepted
            assert accepted != told_to_refuse, (name, granularity, shape)
    finally:
        oracle.close()


def _weight(name: str, granularity: Granularity, shape: tuple[int, ...]) -> onnx.ModelProto:
    assert type_name(formats.get(name).onnx_type) == name
    attributes = {"axis": granularity.axis, "block_size": granularity.block_size} if granularity != PerTensor() else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], **attributes),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each in "xy")
    scale = constant("s", np.full(granularity.scale_shape(shape), 0.5))
    weight = constant("w", np.ones(shape), formats.get(name).onnx_type)
    graph = helper.make_graph(nodes, "g", [x], [y], [weight, scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
