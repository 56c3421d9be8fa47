"""Canonical calls: the graph of each computes its result in onnx's ReferenceEvaluator, at the opset it names."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator
from support import numbers

from qdqtool.errors import ArgumentError
from qdqtool.interop._graph import Dequantize, Quantize, attributes, first_opset
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

GRANULARITIES = [PerTensor(), PerAxis(0), PerAxis(-1), Blocked(1, 2)]
X = np.random.default_rng(4).normal(size=(3, 4)).astype(np.float32) * 3
NEWEST = onnx.defs.onnx_opset_version()


def scales(granularity, dtype=np.float32):
    drawn = numbers.scales(np.random.default_rng(5), granularity.scale_shape(X.shape), "float32")
    return np.asarray(drawn, np.float32).astype(dtype)


def evaluated(piece, data):
    """What onnx makes of a piece; its evaluator has no DequantizeLinear below opset 19."""
    model = piece.model(data.shape, max(piece.opset, 19))
    onnx.checker.check_model(model, full_check=True)
    return ReferenceEvaluator(model).run(None, {"x": data})[0]


def is_refused(piece, opset):
    """Whether onnx's checker refuses the piece at an opset."""
    try:
        onnx.checker.check_model(piece.model(X.shape, opset), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return True
    return False


FORMATS = ["int8", "uint8", "int16", "int4", "uint4", "float8e4m3fn", "float8e5m2", "float4e2m1"]
CASES = list(itertools.product(FORMATS, GRANULARITIES))


@pytest.mark.parametrize(("name", "granularity"), CASES, ids=str)
def test_the_graphs_of_both_directions_compute_what_the_calls_do(name, granularity):
    fmt, scale = formats.get(name), scales(granularity)
    zero = np.full(scale.shape, 2, fmt.dtype) if fmt.zero_point == "any" else None
    quantize = Quantize(X, scale, fmt, granularity, zero)
    codes = quantize.run()
    np.testing.assert_array_equal(evaluated(quantize.graph(), X).astype(np.float32), codes.astype(np.float32))
    dequantize = Dequantize(codes, scale, granularity, np.dtype(np.float32), fmt, zero)
    np.testing.assert_array_equal(evaluated(dequantize.graph(), codes), dequantize.run())


@pytest.mark.parametrize("output", numbers.REAL.values(), ids=str)
@pytest.mark.parametrize("scale_type", numbers.REAL.values(), ids=str)
def test_every_output_type_behind_every_scale_type_is_rounded_alike(scale_type, output):
    codes = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    call = Dequantize(codes, scales(PerAxis(1), scale_type), PerAxis(1), np.dtype(output), formats.get("int8"))
    piece = call.graph()
    found = evaluated(piece, codes)
    assert found.dtype == output
    np.testing.assert_array_equal(found, call.run())
    cast = output != scale_type and scale_type == np.float32
    assert [part.op_type for part in piece.parts] == ["DequantizeLinear", *["Cast"] * cast]


@pytest.mark.parametrize(("name", "granularity"), CASES, ids=str)
def test_the_opset_is_the_first_that_onnx_accepts(name, granularity):
    fmt, scale = formats.get(name), scales(granularity)
    codes = np.zeros(X.shape, fmt.dtype)
    pieces = [
        Quantize(X, scale, fmt, granularity).graph(),
        Dequantize(codes, scale, granularity, np.dtype(np.float32), fmt).graph(),
    ]
    for piece in pieces:
        assert not is_refused(piece, piece.opset)
        assert piece.opset <= NEWEST
        if piece.opset > 13:  # from where on axes are known
            assert is_refused(piece, piece.opset - 1)


@pytest.mark.parametrize(("x_type", "scale_type", "opset"), [("f4", "f4", 13), ("f2", "f2", 19), ("f2", "f4", 23)])
def test_a_scale_of_another_type_than_the_values_needs_opset_23(x_type, scale_type, opset):
    call = Quantize(X.astype(x_type), scales(PerTensor(), scale_type), formats.get("int8"), PerTensor())
    assert call.graph().opset == opset
    assert not is_refused(call.graph(), opset)


def test_a_zero_point_is_always_written_when_quantizing_and_only_if_given_when_dequantizing():
    fmt, scale = formats.get("int16"), scales(PerTensor())
    piece = Quantize(X, scale, fmt, PerTensor()).graph()
    assert piece.constants["zero_point"].dtype == np.int16
    assert (piece.input_type, piece.output_type) == (TensorProto.FLOAT, TensorProto.INT16)
    codes = np.zeros(X.shape, np.int16)
    assert list(Dequantize(codes, scale, PerTensor(), np.dtype(np.float32), fmt).graph().constants) == ["scale"]


def test_axes_are_counted_from_the_front():
    assert attributes(PerTensor(), 3) == {}
    assert attributes(PerAxis(-1), 3) == {"axis": 2}
    assert attributes(Blocked(-2, 16), 3) == {"axis": 1, "block_size": 16}
    with pytest.raises(ArgumentError, match="axis is 3"):
        attributes(PerAxis(3), 3)


@pytest.mark.parametrize(
    ("granularity", "dtype", "opset"),
    [(PerTensor(), "f4", 13), (PerAxis(0), "f2", 19), (Blocked(0, 2), "f4", 21), (Blocked(0, 2), "f2", 21)],
)
def test_granularities_and_scale_types_have_a_first_opset(granularity, dtype, opset):
    assert first_opset(granularity, np.ones((1, 1), dtype)) == opset
