"""Whether two models compute the same."""

import numpy as np
import onnx
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from support.ort_verdict import Arrays, ort_outputs
from support.random_models import brute


def assert_same_outputs(left: onnx.ModelProto, right: onnx.ModelProto, feeds: Arrays) -> None:
    """Assert that two models have the same outputs for ``feeds``.

    They are equal in every bit, unless there is float16 in the model: ONNX Runtime's CPU provider computes a product of
    stored float16 weights in another order than one of computed weights, and rounds to float16 only where a tensor is
    stored. Where outputs differ by more than that, as where terms cancel, the same models in float32 must agree.
    """
    found, expected = ort_outputs(left, feeds), ort_outputs(right, feeds)
    assert found.keys() == expected.keys()
    half = TensorProto.FLOAT16 in brute.elem_types(right).values()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].shape == array.shape, name
        if not half:
            np.testing.assert_array_equal(found[name], array, err_msg=name)
        elif not _is_close(found[name], array):
            wide = [ort_outputs(brute.in_float32(model), _wide(feeds))[name] for model in (left, right)]
            assert _is_close(*wide), (name, *wide)


def _wide(feeds: Arrays) -> Arrays:
    return {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in feeds.items()}


def _is_close(found: np.ndarray, expected: np.ndarray) -> bool:
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    margin = max(0.02 * float(largest), float(expected.dtype.kind in "iu"))
    pair = (each.astype(np.float64) for each in (found, expected))
    return np.allclose(*pair, rtol=0, atol=margin, equal_nan=True)


def assert_same_bits(left: onnx.ModelProto, right: onnx.ModelProto, feeds: Arrays) -> None:
    """Assert that two models have outputs of the same bits.

    Between nodes that have no float16 kernel ONNX Runtime's CPU provider does not round to float16, so that removing a
    node may change a bit. onnx's reference rounds behind every node: where the first differ, its bits decide.
    """
    if _bits(ort_outputs(left, feeds)) == _bits(ort_outputs(right, feeds)):
        return
    assert TensorProto.FLOAT16 in brute.elem_types(right).values()
    assert_same_outputs(left, right, feeds)
    assert _bits(_reference(left, feeds)) == _bits(_reference(right, feeds))


def _bits(outputs: Arrays) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in outputs.items()}


def _reference(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    names = [output.name for output in model.graph.output]
    with np.errstate(all="ignore"):
        return dict(zip(names, ReferenceEvaluator(model).run(names, feeds), strict=True))
