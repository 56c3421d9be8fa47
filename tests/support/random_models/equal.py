"""Whether two models compute the same."""

import numpy as np
import onnx
from onnx import TensorProto

from support.ort_verdict import Arrays, ort_outputs
from support.random_models import brute


def assert_same_outputs(left: onnx.ModelProto, right: onnx.ModelProto, feeds: Arrays) -> None:
    """Assert that two models have the same outputs for ``feeds``.

    They are equal in every bit, unless there is float16 in the model: ONNX Runtime's CPU provider computes a product of
    stored float16 weights in another order than one of computed weights.
    """
    found, expected = ort_outputs(left, feeds), ort_outputs(right, feeds)
    assert found.keys() == expected.keys()
    half = TensorProto.FLOAT16 in brute.elem_types(right).values()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].shape == array.shape, name
        if half:
            largest = np.abs(array[np.isfinite(array)]).max(initial=0)
            margin = max(0.02 * float(largest), float(array.dtype.kind in "iu"))
            np.testing.assert_allclose(
                *(each.astype(np.float64) for each in (found[name], array)), 0, margin, err_msg=name
            )
        else:
            np.testing.assert_array_equal(found[name], array, err_msg=name)


def assert_same_bits(left: onnx.ModelProto, right: onnx.ModelProto, feeds: Arrays) -> None:
    """Assert that two models have outputs of the same bits."""
    found, expected = ort_outputs(left, feeds), ort_outputs(right, feeds)
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
