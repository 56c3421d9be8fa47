"""Packing against onnx's own helpers, and round trips at every count and shape."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats, kernels, packing
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.numerics.packing import in_rows, pack, unpack
from qdqtool.numerics.scheme import QuantParams, QuantScheme


def codes_of(fmt, shape, seed):
    rng = np.random.default_rng(seed)
    if fmt.kind == "integer":
        drawn = rng.integers(int(fmt.low), int(fmt.high) + 1, shape)
        return np.asarray(drawn).astype(np.int64).astype(fmt.dtype)
    return np.asarray(rng.integers(0, 2**fmt.bits, shape)).astype(np.uint8).view(fmt.dtype)


@pytest.mark.parametrize("count", range(10))
@pytest.mark.parametrize("name", formats.names())
def test_bytes_are_those_that_onnx_stores(name, count):
    fmt = formats.get(name)
    codes = codes_of(fmt, count, count)
    stored = pack(codes, fmt)
    assert stored.tobytes() == numpy_helper.from_array(codes).raw_data
    assert stored.size == fmt.stored_bytes(count)


@given(st.sampled_from(formats.names()), st.lists(st.integers(0, 5), max_size=6), st.integers(0, 2**32))
def test_unpacking_undoes_packing(name, shape, seed):
    fmt = formats.get(name)
    codes = codes_of(fmt, tuple(shape), seed)
    back = unpack(pack(codes, fmt), fmt, codes.shape)
    assert back.dtype == fmt.dtype
    assert back.shape == codes.shape
    assert back.tobytes() == codes.tobytes()


def test_the_first_element_is_in_the_low_bits_and_the_tail_is_zero():
    fmt = formats.get("int4")
    assert pack(np.array([-7, 3, -1]).astype(fmt.dtype), fmt).tolist() == [0x39, 0x0F]


def test_a_transposed_array_is_stored_in_its_own_order():
    fmt = formats.get("uint4")
    codes = np.arange(6).astype(fmt.dtype).reshape(2, 3).T
    assert pack(codes, fmt).tolist() == [0x30, 0x41, 0x52]


def test_onnx_reads_what_was_packed():
    fmt = formats.get("float6e3m2")
    codes = codes_of(fmt, (3, 5), 0)
    stored = onnx.TensorProto(data_type=fmt.onnx_type, dims=codes.shape, raw_data=pack(codes, fmt).tobytes())
    np.testing.assert_array_equal(numpy_helper.to_array(stored), codes)


def test_a_wrong_number_of_bytes_is_refused():
    with pytest.raises(ArgumentError, match="2 bytes are stored; 5 elements of int4 take 3"):
        unpack(np.zeros(2, np.uint8), formats.get("int4"), (5,))


def test_a_wrong_type_is_refused():
    with pytest.raises(ArgumentError, match="codes have type int8; int4 needs type int4"):
        pack(np.zeros(2, np.int8), formats.get("int4"))


@pytest.mark.parametrize("name", formats.names())
def test_large_arrays_of_nibbles_and_no_others_are_packed_by_the_kernel(name, monkeypatch):
    fmt, called = formats.get(name), []
    monkeypatch.setattr(kernels, "worth_packing", lambda _codes: True)
    monkeypatch.setattr(kernels, "pack_nibbles", lambda _codes: called.append(1))
    pack(codes_of(fmt, 12, 1), fmt)
    assert bool(called) == (fmt.bits == 4)


# Codes that are made in parts are those of the whole array.


GRANULARITIES = [PerTensor(), PerAxis(0), PerAxis(1), PerAxis(-1), Blocked(0, 5), Blocked(-1, 4), Blocked(1, 32)]


def params(name, granularity, shape):
    fmt, rng = formats.get(name), np.random.default_rng(7)
    scale = np.asarray(rng.uniform(0.01, 0.5, granularity.scale_shape(shape)), np.float32)
    zero = np.asarray(rng.integers(0, 3, scale.shape), fmt.dtype) if fmt.zero_point == "any" else None
    return QuantParams(QuantScheme(fmt, granularity, symmetric=zero is None), scale, zero)


@pytest.mark.parametrize("granularity", GRANULARITIES, ids=str)
@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "int8", "uint8", "float8e4m3fn", "float4e2m1"])
@pytest.mark.parametrize("shape", [(83, 7), (16, 9, 3), (1, 1), (0, 4)])
def test_the_bytes_are_those_of_the_whole(name, granularity, shape, monkeypatch):
    monkeypatch.setattr(packing, "in_rows", lambda shape, granularity: in_rows(shape, granularity, 60))
    x, found = np.random.default_rng(8).normal(size=shape).astype(np.float32), params(name, granularity, shape)
    whole = pack(quantize(x, found.scale, found.scheme.format, granularity, found.zero_point), found.scheme.format)
    parts = [make() for make in packing.stored_codes(x, found)]
    assert b"".join(parts) == whole.tobytes()
    assert len(parts) > 1 or shape[0] < 40


@pytest.mark.parametrize("granularity", GRANULARITIES, ids=str)
@pytest.mark.parametrize("name", ["int4", "uint8", "float8e4m3fn", "float4e2m1"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(83, 7), (16, 9, 3), (1, 1), (0, 4)])
def test_the_values_are_those_of_the_whole(name, granularity, dtype, shape, monkeypatch):
    monkeypatch.setattr(packing, "in_rows", lambda shape, granularity: in_rows(shape, granularity, 60))
    x, found = np.random.default_rng(9).normal(size=shape).astype(np.float32), params(name, granularity, shape)
    codes = quantize(x, found.scale, found.scheme.format, granularity, found.zero_point)
    whole = dequantize(codes, found.scale, granularity, found.zero_point, output_dtype=dtype)
    makers = packing.stored_values(codes, found.scale, granularity, found.zero_point, output_dtype=dtype)
    parts = [make() for make in makers]
    assert b"".join(parts) == whole.tobytes()
    assert len(parts) > 1 or shape[0] < 40


@pytest.mark.parametrize("scale", [np.float32(0.25), np.float32([0.25])])
def test_a_single_scale_is_that_of_every_part(scale, monkeypatch):
    monkeypatch.setattr(packing, "in_rows", lambda shape, granularity: in_rows(shape, granularity, 8))
    codes = np.arange(-60, 60, dtype=np.int8).reshape(40, 3)
    makers = packing.stored_values(codes, np.asarray(scale), PerTensor(), output_dtype=np.float32)
    assert b"".join(make() for make in makers) == (codes * np.float32(0.25)).tobytes()


def test_a_scalar_is_one_part():
    found = params("int8", PerTensor(), ())
    (make,) = packing.stored_codes(np.asarray(np.float32(0.4)), found)
    assert len(make()) == 1


@pytest.mark.parametrize("granularity", [*GRANULARITIES, Blocked(0, 128)], ids=str)
def test_parts_hold_whole_blocks_and_whole_bytes_and_cover_every_row_once(granularity):
    shape, block = (1000, 7), granularity.block_size if isinstance(granularity, Blocked) else 1
    parts = list(in_rows(shape, granularity, 100))
    edges = [(part.values.start, part.values.stop) for part in parts]
    assert [start for start, _ in edges[1:]] == [stop for _, stop in edges[:-1]]
    assert (edges[0][0], edges[-1][1]) == (0, 1000)
    first = not isinstance(granularity, PerTensor) and granularity.axis == 0
    assert all(start % (block if first else 1) == 0 and start % 8 == 0 for start, _ in edges)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_kernels_are_used_where_the_whole_is_worth_it(dtype, monkeypatch):
    pytest.importorskip("numba")
    loaded = []
    monkeypatch.setattr(kernels.importlib, "import_module", loaded.append)
    monkeypatch.setattr(kernels, "available", lambda: True)
    kernels.prepare(np.empty(kernels.WORTH_IT - 1, dtype))
    assert not loaded
    kernels.prepare(np.empty(kernels.WORTH_IT, dtype))
    assert loaded == ["qdqtool.numerics.compiled." + ("half_rows" if dtype == np.float16 else "rows")]
