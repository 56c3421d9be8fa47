"""Operators of TensorRT's parser, evaluated: against exact arithmetic, element by element and block by block.

The oracle knows the types by their bit layouts and rounds on integers (:mod:`support.rational`).
"""

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper
from support.rational import (
    Real,
    dequantize_one,
    divide,
    float_code,
    integer_code,
    magnitudes,
    quantize_one,
    real,
    round_real,
)

from qdqtool.errors import ArgumentError
from qdqtool.models.running.tensorrt_operators import evaluate, is_evaluated

FP8, FP4 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float4_e2m1fn)
E8M0, BF16 = np.dtype(ml_dtypes.float8_e8m0fnu), np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(11)

Index = tuple[int, ...]


def run(op_type: str, *inputs: np.ndarray | None, opset: int = 21, **attributes: object) -> tuple[np.ndarray, ...]:
    names = [f"i{position}" if array is not None else "" for position, array in enumerate(inputs)]
    node = helper.make_node(op_type, names, ["a", "b"], domain="trt", **attributes)
    assert is_evaluated(node)
    return evaluate(node, inputs, opset)


def bits(array: np.ndarray) -> np.ndarray:
    """Codes as the integers that the oracle gives: for float formats their bits, which ml_dtypes keeps in a byte."""
    return (array.view(np.uint8) if array.dtype in (FP8, FP4) else array).astype(np.int64)


def decoded(fmt: str, code: int) -> Fraction:
    """The value of a code of a float format."""
    size = {bits: size for size, bits in magnitudes(fmt).items()}[code & (0x7F if fmt == "float8e4m3fn" else 7)]
    return -size if code > (0x7F if fmt == "float8e4m3fn" else 7) else size


def blocks(shape: Index, block_shape: Index) -> Iterator[tuple[Index, list[Index]]]:
    """The place of each block among the blocks, and its elements; the last block of an axis may be shorter."""
    whole = [size if block == -1 else block for size, block in zip(shape, block_shape, strict=True)]
    counts = [range(-(-size // block)) for size, block in zip(shape, whole, strict=True)]
    for place in itertools.product(*counts):
        spans = [
            range(size)[at * block : (at + 1) * block] for at, block, size in zip(place, whole, shape, strict=True)
        ]
        yield place, list(itertools.product(*spans))


def along(axis: int, size: int, rank: int) -> Index:
    return tuple(size if at == axis % rank else 1 for at in range(rank))


def largest(data: np.ndarray, indices: list[Index]) -> Fraction:
    return max(abs(Fraction(float(data[index]))) for index in indices)


def mx_exponent(amax: Fraction) -> int:
    """The least e with ``448 * 2**e >= amax``: 0 where all is 0, else what float8e8m0 can hold of normal numbers."""
    if not amax:
        return 0
    return next(e for e in range(-126, 128) if 448 * Fraction(2) ** e >= amax or e == 127)


SAMPLES = [
    RNG.normal(size=(3, 64)).astype(np.float32),
    (RNG.normal(size=(2, 3, 32)) * 2.0 ** RNG.integers(-30, 30, (2, 3, 1))).astype(np.float32),
    (448 * 2.0 ** np.arange(-32, 32).reshape(2, 32)).astype(np.float32),
    np.zeros((1, 32), np.float32),
    np.float32(
        [[448] + [1] * 31, [np.nextafter(np.float32(448), np.float32(449))] + [1] * 31, [3e38] * 32, [1e-44] * 32]
    ),
    RNG.normal(size=(2, 64)).astype(np.float16),
    RNG.normal(size=(2, 64)).astype(BF16),
]


@pytest.mark.parametrize("data", SAMPLES, ids=lambda data: f"{data.dtype}{data.shape}")
@pytest.mark.parametrize("axis", [None, -1, -2])
def test_mxfp8_at_computed_scales(data: np.ndarray, axis: int | None):
    """Scales are ``2 ** ceil(log2(amax / 448))``, stored as exponents + 127."""
    data = np.moveaxis(data, -1, axis) if axis is not None else data
    codes, scales = run("TRT_MXFP8DynamicQuantize", data, **({} if axis is None else {"axis": axis, "block_size": 32}))

    assert (codes.dtype, codes.shape, scales.dtype) == (FP8, data.shape, np.uint8)
    found = bits(codes)
    for place, indices in blocks(data.shape, along(axis or -1, 32, data.ndim)):
        exponent = mx_exponent(largest(data, indices))
        assert scales[place] == exponent + 127
        for index in indices:
            assert found[index] == quantize_one(real(data[index]), Real(Fraction(2) ** exponent), "float8e4m3fn")


def test_mxfp8_has_a_shorter_last_block():
    data = RNG.normal(size=(2, 40)).astype(np.float32)
    codes, scales = run("TRT_MXFP8DynamicQuantize", data)

    assert codes.shape == (2, 40)
    assert [[*row] for row in scales] == [
        [
            mx_exponent(largest(data, [(row, column) for column in columns])) + 127
            for columns in (range(32), range(32, 40))
        ]
        for row in range(2)
    ]


def fp8_code(value: Fraction) -> int:
    """The nearest code of fp8, but the smallest one above 0 instead of 0: a scale must not be 0."""
    return float_code(Real(value), "float8e4m3fn") or 1


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.00037, 2.0**-20, 1234.5])
@pytest.mark.parametrize("axis", [None, -1, 0])
def test_nvfp4_at_computed_scales(scale: float, axis: int | None):
    """Codes are fp4, block scales fp8 of ``amax / 6`` over one scale of scales."""
    data = (RNG.normal(size=(32, 48)) * 2.0 ** RNG.integers(-9, 9, (32, 1))).astype(np.float32)
    data[:16, :16] = 0
    outer = np.float32(scale)
    attributes = {"block_size": 16, "scale_type": T.FLOAT8E4M3FN}
    codes, scales = run("TRT_FP4DynamicQuantize", data, outer, **attributes, **({} if axis is None else {"axis": axis}))

    assert (codes.dtype, scales.dtype, codes.shape) == (FP4, FP8, data.shape)
    found, found_scales = bits(codes), bits(scales)
    for place, indices in blocks(data.shape, along(1 if axis is None else axis, 16, 2)):
        expected = fp8_code(largest(data, indices) / 6 / Fraction(float(outer)))
        assert found_scales[place] == expected
        step = dequantize_one(decoded("float8e4m3fn", expected), real(outer))
        for index in indices:
            assert found[index] == quantize_one(real(data[index]), step, "float4e2m1")


def test_nvfp4_scales_that_are_too_large_saturate():
    codes, scales = run("TRT_FP4DynamicQuantize", np.full((1, 16), 9e4, np.float32), np.float32([1.0]))

    assert float(scales[0, 0]) == 448
    assert set(codes.astype(np.float32).ravel()) == {6}


@pytest.mark.parametrize("kind", [np.float16, BF16])
def test_nvfp4_of_short_floats_with_a_scale_of_their_type(kind: np.dtype):
    data = RNG.normal(size=(2, 16)).astype(kind)
    codes, scales = run("TRT_FP4DynamicQuantize", data, np.asarray(0.02, kind))

    outer = Fraction(float(np.asarray(0.02, kind)))
    for place, indices in blocks(data.shape, (1, 16)):
        code = fp8_code(largest(data, indices) / 6 / outer)
        step = dequantize_one(decoded("float8e4m3fn", code), real(np.asarray(0.02, kind)))
        assert bits(scales)[place] == code
        assert [bits(codes)[index] for index in indices] == [
            quantize_one(real(data[index]), step, "float4e2m1") for index in indices
        ]


SHAPES = [
    ((32, 48), (16, 16)),
    ((5, 7), (2, 3)),
    ((3, 40), (1, 16)),
    ((3, 4, 5), (1, -1, 2)),
    ((6, 4), (-1, -1)),
    ((5,), (2,)),
]


@pytest.mark.parametrize(("shape", "block_shape"), SHAPES)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_blocks_at_computed_scales(shape: Index, block_shape: Index, kind: type):
    data = RNG.normal(size=shape).astype(kind)
    data[(slice(0, 1),) * len(shape)] = 0
    codes, scales = run("TRT_DynamicQuantize", data, block_shape=block_shape, output_type=T.FLOAT8E4M3FN)

    assert (codes.dtype, scales.dtype) == (FP8, np.float32)
    places = 0
    for place, indices in blocks(shape, block_shape):
        places += 1
        amax = largest(data, indices)
        step = round_real(Real(amax / 448), "float32") if amax else Real(Fraction(1))
        assert Fraction(float(scales[place])) == step.size
        for index in indices:
            assert bits(codes)[index] == quantize_one(real(data[index]), step, "float8e4m3fn")
    assert scales.size == places


@pytest.mark.parametrize(("shape", "block_shape"), SHAPES)
@pytest.mark.parametrize("onnx_type", [T.FLOAT8E4M3FN, T.INT8, None])
def test_blocks_at_given_scales_there_and_back(shape: Index, block_shape: Index, onnx_type: int | None):
    """Each scale holds for one block, and a last block may be shorter."""
    data = (RNG.normal(size=shape) * 9).astype(np.float32)
    places = [place for place, _ in blocks(shape, block_shape)]
    scales = RNG.uniform(0.01, 0.2, [1 + max(place[axis] for place in places) for axis in range(len(shape))]).astype(
        np.float32
    )
    kind = {} if onnx_type is None else {"output_dtype": onnx_type}
    (codes,) = run("TRT_BlockQuantize", data, scales, block_shape=block_shape, **kind)
    (values,) = run("TRT_BlockDequantize", codes, scales, block_shape=block_shape)

    for place, indices in blocks(shape, block_shape):
        step = real(scales[place])
        for index in indices:
            quotient = round_real(divide(real(data[index]), step), "float32")
            if onnx_type == T.INT8:
                code = integer_code(quotient, "int8", 0)
                exact = Fraction(code)
            else:
                code = float_code(quotient, "float8e4m3fn")
                exact = decoded("float8e4m3fn", code)
            assert bits(codes)[index] == code
            assert Fraction(float(values[index])) == dequantize_one(exact, step).value


@pytest.mark.parametrize("made", [None, T.FLOAT, T.FLOAT16, T.BFLOAT16])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_blocks_come_back_in_the_type_of_their_scales_or_in_that_of_the_attribute(made: int | None, kind: type):
    codes, scales = np.arange(-4, 4, dtype=np.int8).reshape(2, 4), np.asarray([[0.1], [0.3]], kind)
    (values,) = run(
        "TRT_BlockDequantize", codes, scales, block_shape=(1, -1), **({"output_dtype": made} if made else {})
    )

    name = {None: np.dtype(kind).name, T.FLOAT: "float32", T.FLOAT16: "float16", T.BFLOAT16: "bfloat16"}[made]
    assert values.dtype.name == name
    for index in np.ndindex(codes.shape):
        expected = dequantize_one(Fraction(int(codes[index])), real(scales[index[0], 0]), output=name)
        assert Fraction(float(values[index])) == expected.value


def exponents(shape: Index) -> np.ndarray:
    return RNG.integers(105, 128, shape).astype(np.uint8)


ALL_CODES = np.arange(256, dtype=np.uint8)[np.isfinite(np.arange(256, dtype=np.uint8).view(FP8).astype(np.float32))]
GRANULARITIES: list[tuple[Index, dict[str, int], Callable[[Index], Index]]] = [
    ((), {}, lambda _: ()),
    ((1,), {"axis": 0}, lambda _: (0,)),
    ((4,), {"axis": 0}, lambda index: (index[0],)),
    ((64,), {}, lambda index: (index[1],)),
    ((64,), {"axis": -1}, lambda index: (index[1],)),
    ((4, 2), {"axis": -1, "block_size": 32}, lambda index: (index[0], index[1] // 32)),
    ((4, 4), {}, lambda index: (index[0], index[1] // 16)),
    ((2, 64), {"axis": 0}, lambda index: (index[0] // 2, index[1])),
]


@pytest.mark.parametrize(("shape", "attributes", "place"), GRANULARITIES)
@pytest.mark.parametrize("made", [None, T.FLOAT16])
def test_mxfp8_back(shape: Index, attributes: dict[str, int], place: Callable[[Index], Index], made: int | None):
    codes = RNG.choice(ALL_CODES, (4, 64)).view(FP8)
    scales = exponents(shape)
    (values,) = run(
        "TRT_MXFP8DequantizeLinear", codes, scales, **attributes, **({"output_dtype": made} if made else {})
    )

    name = "float16" if made else "float32"
    assert values.dtype.name == name
    for index in np.ndindex(codes.shape):
        step = Real(Fraction(2) ** (int(scales[place(index)]) - 127))
        expected = dequantize_one(decoded("float8e4m3fn", int(bits(codes)[index])), step, output=name)
        found = real(values[index])
        assert found.value == expected.value


@pytest.mark.parametrize(("shape", "attributes", "place"), GRANULARITIES)
@pytest.mark.parametrize("stored", ["exponents", "floats"])
def test_mxfp8_there(shape: Index, attributes: dict[str, int], place: Callable[[Index], Index], stored: str):
    data = RNG.normal(size=(4, 64)).astype(np.float32) * 100
    scales = exponents(shape) if stored == "exponents" else RNG.uniform(0.1, 3, shape).astype(np.float32)
    (codes,) = run("TRT_MXFP8QuantizeLinear", data, np.asarray(scales), **attributes)

    assert codes.dtype == FP8
    for index in np.ndindex(data.shape):
        scale = np.asarray(scales)[place(index)]
        step = Real(Fraction(2) ** (int(scale) - 127)) if stored == "exponents" else real(scale)
        assert bits(codes)[index] == quantize_one(real(data[index]), step, "float8e4m3fn")


@pytest.mark.parametrize(("opset", "axis"), [(12, 0), (13, 1)])
def test_the_axis_that_is_left_out_depends_on_the_opset(opset: int, axis: int):
    codes, scales = RNG.choice(ALL_CODES, (3, 3)).view(FP8), exponents((3,))
    (values,) = run("TRT_MXFP8DequantizeLinear", codes, scales, opset=opset)
    (expected,) = run("TRT_MXFP8DequantizeLinear", codes, scales, axis=axis)
    (there,) = run("TRT_MXFP8QuantizeLinear", expected, scales, opset=opset)
    (again,) = run("TRT_MXFP8QuantizeLinear", expected, scales, axis=axis)

    assert values.tobytes() == expected.tobytes()
    assert there.tobytes() == again.tobytes()


def test_exponents_reach_from_the_least_to_nan():
    codes = np.ones((1, 3), np.float32).astype(FP8)
    (values,) = run("TRT_MXFP8DequantizeLinear", codes, np.uint8([0, 254, 255]), axis=1)

    assert values[0, :2].tolist() == [2.0**-127, 2.0**127]
    assert np.isnan(values[0, 2])


@pytest.mark.parametrize(
    "op_type", ["TRT_DynamicQuantize", "TRT_BlockQuantize", "TRT_MXFP8DynamicQuantize", "TRT_FP4DynamicQuantize"]
)
@pytest.mark.parametrize("shape", [(0, 32), (2, 0)])
def test_empty_tensors_stay_empty(op_type: str, shape: Index):
    """A body of a Loop, or a batch of nothing, may have them."""
    data = np.zeros(shape, np.float32)
    scale = {
        "TRT_BlockQuantize": (np.ones((shape[0], min(shape[1], 1)), np.float32),),
        "TRT_FP4DynamicQuantize": (np.float32(1),),
    }
    more = {"block_shape": (1, -1)} if op_type in ("TRT_DynamicQuantize", "TRT_BlockQuantize") else {}
    codes, *rest = run(op_type, data, *scale.get(op_type, ()), **more)

    assert codes.shape == shape
    assert all(each.size == 0 for each in rest)


@pytest.mark.parametrize(
    ("op_type", "more", "attributes"),
    [
        ("TRT_DynamicQuantize", (), {"block_shape": (1, 16)}),
        ("TRT_MXFP8DynamicQuantize", (), {}),
        ("TRT_FP4DynamicQuantize", (np.float32(0.1),), {}),
    ],
)
def test_infinities_and_nan_have_no_part_in_a_scale(
    op_type: str, more: tuple[np.ndarray, ...], attributes: dict[str, object]
):
    data = np.zeros((1, 16), np.float32)
    data[0, :4] = 3, np.inf, -np.inf, np.nan
    finite = np.where(np.isfinite(data), data, 0)
    codes, scales = run(op_type, data, *more, **attributes)
    expected_codes, expected = run(op_type, finite, *more, **attributes)

    assert scales.tobytes() == expected.tobytes()
    assert codes[0, 4:].tobytes() == expected_codes[0, 4:].tobytes()
    top = 6 if codes.dtype == FP4 else 448
    assert codes[0, 1:3].astype(np.float32).tolist() == [top, -top]


@pytest.mark.parametrize("block", [64, 65, 2**40])
def test_blocks_that_are_larger_than_the_data_take_no_more_memory(block: int):
    data = RNG.normal(size=(1, 64)).astype(np.float32)
    codes, scales = run("TRT_DynamicQuantize", data, block_shape=(block, block))
    expected, scale = run("TRT_DynamicQuantize", data, block_shape=(-1, -1))
    (values,) = run("TRT_BlockDequantize", codes, scales, block_shape=(block, block))
    mx_codes, exponents = run("TRT_MXFP8DynamicQuantize", data, block_size=block)

    assert codes.tobytes() == expected.tobytes()
    assert scales.tobytes() == scale.tobytes()
    assert values.shape == data.shape
    assert (mx_codes.shape, exponents.shape) == ((1, 64), (1, 1))


X = np.ones((2, 64), np.float32)
CODES, S22 = X.astype(FP8), np.ones((2, 2), np.float32)
ROWS, NEED = {"block_shape": (1, 32)}, "and blocks [1, 32] of data [2, 64] need [2, 2]"
MX_DQ, MX_Q, BLOCK_DQ, BLOCK_Q = (
    "TRT_MXFP8DequantizeLinear",
    "TRT_MXFP8QuantizeLinear",
    "TRT_BlockDequantize",
    "TRT_BlockQuantize",
)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        (MX_DQ, (X, np.uint8(127)), {}, "it reads float32 values, not codes"),
        (BLOCK_DQ, (X.astype(np.float64), S22), ROWS, "it reads float64 values, not codes"),
        (BLOCK_DQ, (X.astype(BF16), S22), ROWS, "it reads bfloat16 values, not codes"),
        *(
            (name, reads, ROWS, "its scale is absent")
            for name in (MX_Q, "TRT_FP4DynamicQuantize", BLOCK_Q)
            for reads in ((X,), (X, None))
        ),
        (BLOCK_DQ, (CODES,), ROWS, "its scale is absent"),
        (MX_DQ, (CODES, None), {}, "its scale is absent"),
        ("TRT_MXFP8DynamicQuantize", (None,), {}, "its data is absent"),
        ("TRT_DynamicQuantize", (), ROWS, "its data is absent"),
        (BLOCK_Q, (X, S22), {"block_shape": (32,)}, "block_shape is [32], and the data has 2 dimensions"),
        (BLOCK_Q, (X, S22), {}, "block_shape is [], and the data has 2 dimensions"),
        ("TRT_DynamicQuantize", (X,), {"block_shape": (1, 1, 32)}, "block_shape is [1, 1, 32], and the data has 2"),
        ("TRT_DynamicQuantize", (X,), {"block_shape": (0, 32)}, "block_shape is [0, 32]; legal: extents from 1"),
        (BLOCK_DQ, (CODES, S22), {"block_shape": (1, -2)}, "block_shape is [1, -2]; legal: extents from 1"),
        (BLOCK_Q, (X, np.ones((2, 4), np.float32)), ROWS, f"scale has shape [2, 4], {NEED}"),
        (BLOCK_DQ, (CODES, S22[:, :1]), ROWS, f"scale has shape [2, 1], {NEED}"),
        (BLOCK_Q, (X, S22[0]), ROWS, f"scale has shape [2], {NEED}"),
        (MX_Q, (X, np.ones((1, 2, 2), np.uint8)), {}, "scale has shape [1, 2, 2], data [2, 64]"),
        (MX_Q, (X, np.ones((1, 0), np.uint8)), {}, "scale has shape [1, 0], data [2, 64]"),
        ("TRT_FP4DynamicQuantize", (X, np.ones(2, np.float32)), {}, "its scale of scales has 2 elements; legal: one"),
        (BLOCK_Q, (X, S22), {**ROWS, "output_dtype": T.FLOAT}, "its type 1 is no quantized type"),
    ],
)
def test_errors(op_type: str, inputs: tuple[np.ndarray | None, ...], attributes: dict[str, object], message: str):
    with pytest.raises(ArgumentError) as caught:
        run(op_type, *inputs, **attributes)

    assert caught.value.message.startswith(message)


def test_those_that_are_q_and_dq_are_evaluated_elsewhere():
    for op_type in ("TRT_FP8QuantizeLinear", "TRT_INT4DequantizeLinear", "QuantizeLinear", "TRT_FP4QDQ"):
        assert not is_evaluated(onnx.NodeProto(op_type=op_type))
