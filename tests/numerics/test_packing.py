"""Packing against onnx's own helpers, and round trips at every count and shape."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats, kernels
from qdqtool.numerics.packing import pack, unpack


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
    with pytest.raises(ArgumentError, match="codes have type int8; int4 is stored from int4"):
        pack(np.zeros(2, np.int8), formats.get("int4"))


@pytest.mark.parametrize("name", formats.names())
def test_large_arrays_of_nibbles_and_no_others_are_packed_by_the_kernel(name, monkeypatch):
    fmt, called = formats.get(name), []
    monkeypatch.setattr(kernels, "worth_packing", lambda _codes: True)
    monkeypatch.setattr(kernels, "pack_nibbles", lambda _codes: called.append(1))
    pack(codes_of(fmt, 12, 1), fmt)
    assert bool(called) == (fmt.bits == 4)
