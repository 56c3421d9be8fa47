"""The torch mode against golden vectors that real PyTorch made (``tests/golden/make_torch_vectors.py``)."""

import importlib.util

import numpy as np
import pytest
from support.paths import ROOT

from qdqtool.errors import ArgumentError
from qdqtool.interop import onnx, torch

GOLDEN = ROOT / "tests" / "golden"
SPEC = importlib.util.spec_from_file_location("make_torch_vectors", GOLDEN / "make_torch_vectors.py")
MAKER = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MAKER)
CASES = list(MAKER.cases())


@pytest.fixture(scope="module")
def golden():
    with np.load(MAKER.FILE) as archive:
        return dict(archive)


@pytest.mark.parametrize(("scale", "dtype", "zero"), CASES)
def test_codes_and_values_are_those_of_pytorch(golden, scale, dtype, zero):
    key = f"{scale:.6f}/{dtype}/{zero}"
    x, rows = golden[f"{scale:.6f}/x"]
    q = torch.quantize_per_tensor(x, scale, zero, dtype)
    np.testing.assert_array_equal(q.int_repr(), golden[f"{key}/codes"])
    # PyTorch wraps around where an int32 code less its zero point leaves int32; we do not
    fits = q.int_repr().astype(np.int64) - zero >= -(2**31)
    np.testing.assert_array_equal(q.dequantize()[fits], golden[f"{key}/real"][fits])
    steps = np.array([scale, scale * 1.5])
    c = torch.quantize_per_channel(rows.reshape(2, -1), steps, [zero, 1], 0, dtype)
    np.testing.assert_array_equal(c.int_repr(), golden[f"{key}/channel_codes"])
    np.testing.assert_array_equal(c.dequantize(), golden[f"{key}/channel_real"])


@pytest.mark.parametrize(
    ("scale", "dtype", "zero"), [case for case in CASES if case[1:] in {("quint8", 3), ("qint8", -5)}]
)
def test_a_million_values_and_near_ties_have_the_digest_of_pytorchs_codes(golden, scale, dtype, zero):
    expected = golden[f"{scale:.6f}/{dtype}/{zero}/digests"]
    x = MAKER.inputs(scale)
    if MAKER.digest(x) != expected[0]:
        pytest.skip("this NumPy draws other inputs from the seed; run the script again")
    assert MAKER.digest(torch.quantize_per_tensor(x, scale, zero, dtype).int_repr()) == expected[1]
    rows, steps = MAKER.channels(scale)
    assert MAKER.digest(torch.quantize_per_channel(rows, steps, [zero, 1], 0, dtype).int_repr()) == expected[2]


def test_the_example_of_the_page():
    x = [[-1.0, 0.0], [1.0, 2.0]]
    q = torch.quantize_per_tensor(x, scale=0.1, zero_point=10, dtype="quint8")
    np.testing.assert_array_equal(q.int_repr(), [[0, 10], [20, 30]])
    np.testing.assert_array_equal(torch.dequantize(q), np.float32(x))
    assert (q.q_scale(), q.q_zero_point()) == (0.1, 10)
    assert q.int_repr().dtype == np.uint8


def test_ties_follow_the_parity_of_the_zero_point_and_onnx_does_not():
    assert torch.quantize_per_tensor([0.5], 1, 0, "quint8").int_repr() == 0
    assert torch.quantize_per_tensor([0.5], 1, 1, "quint8").int_repr() == 2
    assert onnx.quantize_linear([0.5], 1.0, np.uint8(1)) == 1


def test_dequantize_takes_lists_and_plain_arrays():
    q = torch.quantize_per_tensor([1.0], 0.5, 0, "qint8")
    assert [list(each) for each in torch.dequantize([q, q])] == [[1.0], [1.0]]
    assert torch.dequantize(np.array([1, 2])).dtype == np.float32


def test_qint32_does_not_wrap_when_dequantized():
    q = torch.quantize_per_tensor([-3e9], 1.0, 5, "qint32")
    assert q.dequantize() == np.float32(-(2.0**31))


def test_per_channel_parameters_are_given_back():
    q = torch.quantize_per_channel(np.ones((2, 3), np.float32), [0.1, 0.2, 0.3], [0, 1, 2], 1, "qint8")
    assert q.q_per_channel_scales().tolist() == [0.1, 0.2, 0.3]
    assert q.q_per_channel_zero_points().tolist() == [0, 1, 2]
    assert q.q_per_channel_axis() == 1
    with pytest.raises(ArgumentError, match="q_scale does not exist; the array is per-axis 1"):
        q.q_scale()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torch.quantize_per_tensor(np.zeros(1), 1, 0, "qint8"), "input has type float64; legal: float32"),
        (lambda: torch.quantize_per_tensor([1], 1, 300, "quint8"), "zero_point is 300; uint8 allows 0 to 255"),
        (lambda: torch.quantize_per_tensor([1], 1, 0.5, "quint8"), "zero_point has type float64; legal: integers"),
        (lambda: torch.quantize_per_tensor([1], 0, 0, "quint8"), "scale must be finite and greater than 0"),
        (lambda: torch.quantize_per_tensor([1], 1, 0, "int4"), "dtype is int4; legal: qint8, quint8, qint32"),
        (lambda: torch.quantize_per_channel([[1]], [1], [0], -1, "qint8"), "axis is -1; legal: 0 to 1"),
        (
            lambda: torch.quantize_per_channel([[1, 2]], [1], [0], 1, "qint8"),
            "scales has 1 elements; dimension 1 .* has 2",
        ),
        (lambda: torch.quantize_per_channel([[1]], 1, 0, 0, "qint8"), "scale has rank 0; legal: 1"),
        (lambda: torch.quantize_per_channel([[1]], [1], 0, 0, "qint8"), r"zero_point has shape \[\].* \[1\]"),
    ],
)
def test_illegal_calls_name_argument_value_and_legal_values(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
