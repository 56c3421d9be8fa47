"""Engines whose times can be compared."""

import numpy as np
import pytest
from support.fake_runner import FakeRunner

from qdqtool.engines.gpu.comparison import require_comparable, require_order
from qdqtool.errors import UsageError
from qdqtool.samples.signature import InputSpec

HALF = (InputSpec("x", np.dtype(np.float16), (1, 3)),)
OTHER = (InputSpec("z", np.dtype(np.float32), (1, 3)),)
FLAT = (InputSpec("x", np.dtype(np.float32), (3,)),)


@pytest.mark.parametrize("other", [FakeRunner(), FakeRunner(inputs=HALF)])
def test_another_float_type_does_not_matter(other):
    require_comparable(FakeRunner(), other)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (FakeRunner(inputs=OTHER), r"different inputs: x \(rank 2\) against z \(rank 2\)"),
        (FakeRunner(inputs=FLAT), r"different inputs: x \(rank 2\) against x \(rank 1\)"),
        (FakeRunner(outputs=("y", "z")), "different outputs: y against y, z"),
        (FakeRunner(clock="host"), "only the times of the ONNX model include copies"),
    ],
)
def test_other_networks_and_clocks_are_refused(other, says):
    with pytest.raises(UsageError, match=says):
        require_comparable(FakeRunner(), other)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [(None, None), (None, {"int8": 3}), ({"int8": 3}, {}), ({"int8": 3}, {"int8": 2}), ({}, {}), ({}, None)],
)
def test_any_order_but_the_reverse_will_do(mine, theirs):
    require_order(mine, theirs)


def test_a_float_engine_in_the_place_of_the_quantized_one_is_refused():
    with pytest.raises(UsageError, match="the order is wrong"):
        require_order({}, {"int8": 3})
