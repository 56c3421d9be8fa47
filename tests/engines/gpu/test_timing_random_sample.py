"""The random sample of an engine."""

import numpy as np

from qdqtool.engines.gpu.timing import random_sample
from qdqtool.samples.signature import InputSpec

SPECS = (
    InputSpec("image", np.dtype(np.float16), (2, 3, 4)),
    InputSpec("ids", np.dtype(np.int64), (1, 500)),
    InputSpec("flag", np.dtype(np.bool_), ()),
)


def test_there_is_one_sample_with_the_types_and_shapes_of_the_inputs():
    (sample,) = random_sample(SPECS)
    assert {name: (array.dtype, array.shape) for name, array in sample.items()} == {
        spec.name: (spec.dtype, spec.shape) for spec in SPECS
    }
    assert set(np.unique(sample["ids"])) == set(range(10))


def test_it_is_the_same_each_time_and_says_that_it_is_random():
    first, second = random_sample(SPECS), random_sample(SPECS)
    assert all(np.array_equal(next(iter(first))[name], next(iter(second))[name]) for name in ("image", "ids"))
    assert first.description.seed == 0
    assert first.description.shapes == {"image": (2, 3, 4), "ids": (1, 500), "flag": ()}
