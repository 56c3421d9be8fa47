"""One sample: what pads it is cut off its outputs, and its digest is that of its values and nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.sample import NoLabelsError, Sample, data_digest, sample_digest
from qdqtool.samples.signature import InputSpec

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@given(st.integers(1, 6), st.data())
def test_padded_rows_are_cut_off_outputs_whose_first_axis_is_the_batch(batch, data):
    filler = data.draw(st.integers(0, batch - 1))
    sample = Sample({}, batch=batch, filler=filler)
    output = np.arange(batch * 2).reshape(batch, 2)
    np.testing.assert_array_equal(sample.without_filler(output), output[: batch - filler])
    other = np.zeros((batch + 1, 2))
    assert sample.without_filler(other) is other


def test_a_scalar_output_has_no_rows_to_cut_off():
    output = np.float32(3).reshape(())
    assert Sample({}, batch=2, filler=1).without_filler(output) is output


def test_a_sample_is_its_arrays_by_name_and_has_no_labels_unless_given():
    sample = Sample({"x": X})
    assert dict(sample) == {"x": X}
    assert (sample.batch, sample.filler, sample.labels) == (1, 0, None)


def test_the_digest_does_not_depend_on_how_arrays_lie_in_memory_or_on_the_order_of_inputs():
    other = {"b": np.asfortranarray(X), "a": np.repeat(X, 2, axis=0)[::2]}
    assert sample_digest({"a": X, "b": X}) == sample_digest(other)


@pytest.mark.parametrize(
    "changed",
    [
        {"y": X},
        {"x": X.reshape(3, 2, 4)},
        {"x": X.view(np.int32)},
        {"x": np.where(X == 5, -0.0, X).astype(np.float32)},
        {"x": X, "y": X},
        {},
    ],
    ids=["name", "shape", "type", "value", "one more", "none"],
)
def test_the_digest_changes_with_name_shape_type_and_values(changed):
    assert sample_digest(changed) != sample_digest({"x": X})


def test_minus_zero_is_another_value_than_zero():
    assert sample_digest({"x": np.float32([0.0])}) != sample_digest({"x": np.float32([-0.0])})


def test_scalars_and_empty_arrays_have_digests():
    digests = {sample_digest({"x": array}) for array in (np.float32(1), np.zeros((0, 2)), np.zeros((2, 0)))}
    assert len(digests) == 3


def test_the_digest_of_data_depends_on_the_order_of_its_samples():
    one, two = sample_digest({"x": X}), sample_digest({"x": X + 1})
    assert len(data_digest([one])) == 64
    assert len({data_digest(digests) for digests in ([one, two], [two, one], [one], [])}) == 4


def test_archives_and_scripts_may_have_labels_and_single_arrays_not(tmp_path):
    np.savez(tmp_path / "d.npz", x=X, labels=np.arange(len(X)))
    np.save(tmp_path / "d.npy", X)
    yielding = f"    yield from ({{'x': np.ones((1, 3, 4), '{X.dtype}'), 'labels': [n]}} for n in range({len(X)}))"
    (tmp_path / "d.py").write_text(f"import numpy as np\ndef load_data():\n{yielding}\n")
    specs = (InputSpec("x", X.dtype, ("n", 3, 4)),)
    feeds = {end: load_feeds(tmp_path / f"d.{end}", specs) for end in ("npz", "npy", "py")}
    assert [sample.labels for each in feeds.values() for sample in each] == [None] * 3 * len(X)
    for end in ("npz", "py"):
        assert [sample.labels.tolist() for sample in feeds[end].with_labels()] == [[n] for n in range(len(X))]
        picked = feeds[end].only([len(X) - 1]).with_labels()
        assert [sample.labels.tolist() for sample in picked] == [[len(X) - 1]]
    with pytest.raises(NoLabelsError, match=r"d\.npy has no place for the right answers"):
        feeds["npy"].with_labels()
