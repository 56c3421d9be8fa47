"""Samples with other names and types than the model takes."""

import numpy as np
import pytest

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.sample import Converted, Sample
from qdqtool.samples.signature import InputSpec


def test_names_change_and_batch_and_labels_stay():
    given = Sample({"a": np.zeros(2), "b": np.ones(2)}, batch=3, filler=1, labels=np.arange(2))
    (made,) = Converted([given], {"a": "x"})
    assert list(made) == ["x", "b"]
    assert (made.batch, made.filler, made.labels) == (3, 1, given.labels)


def test_float32_is_rounded_to_float16_where_the_model_takes_that_and_nothing_else(tmp_path):
    values = np.float32([[1 / 3, 1e-3]])
    np.savez(tmp_path / "d.npz", half=values, single=values)
    specs = [InputSpec(name, np.dtype(kind), (2,)) for name, kind in (("half", "float16"), ("single", "float32"))]
    (sample,) = load_feeds(tmp_path / "d.npz", specs)
    np.testing.assert_array_equal(sample["half"], values[0].astype(np.float16), strict=True)
    np.testing.assert_array_equal(sample["single"], values[0], strict=True)


def test_what_float16_cannot_hold_is_an_error(tmp_path):
    np.savez(tmp_path / "d.npz", half=np.float32([[1e6, 0]]))
    with pytest.raises(UsageError, match="is inf at"):
        load_feeds(tmp_path / "d.npz", [InputSpec("half", np.dtype("float16"), (2,))])


def test_other_types_are_still_refused(tmp_path):
    np.savez(tmp_path / "d.npz", half=np.zeros((1, 2)))
    with pytest.raises(UsageError, match="float64"):
        load_feeds(tmp_path / "d.npz", [InputSpec("half", np.dtype("float16"), (2,))])
