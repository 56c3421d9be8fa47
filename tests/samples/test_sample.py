"""One sample: padding, digest, names and types that are converted, and inputs that the model stores as constants."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.small import make_model

from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.specialize_values import fix_values
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.sample import Converted, NoLabelsError, Sample, data_digest, sample_digest
from qdqtool.samples.signature import InputSpec, input_specs, stored_specs

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@given(st.integers(1, 6), st.data())
def test_padded_rows_are_cut_off_outputs_whose_first_axis_is_the_batch(batch, data):
    filler = data.draw(st.integers(0, batch - 1))
    sample = Sample({}, batch=batch, filler=filler)
    output = np.arange(batch * 2).reshape(batch, 2)
    np.testing.assert_array_equal(sample.without_filler(output), output[: batch - filler])
    other = np.zeros((batch + 1, 2))
    assert sample.without_filler(other) is other


def test_the_rows_of_a_batch_have_the_inputs_without_one_too():
    rows = list(Sample({"x": X, "rate": np.float32(3)}, batch=2, filler=1).rows())
    assert [row["x"].tolist() for row in rows] == [X[0].tolist()]
    assert rows[0]["rate"] == 3
    assert [row["x"].shape for row in Sample({"x": X}).rows()] == [(2, 3, 4)]


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
    with pytest.raises(NoLabelsError, match=r"d\.npy cannot hold labels"):
        feeds["npy"].with_labels()


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


@pytest.mark.parametrize(("values", "says"), [(np.float32([[1e6, 0]]), "is inf at"), (np.zeros((1, 2)), "float64")])
def test_what_float16_cannot_hold_and_other_types_are_refused(values, says, tmp_path):
    np.savez(tmp_path / "d.npz", half=values)
    with pytest.raises(UsageError, match=says):
        load_feeds(tmp_path / "d.npz", [InputSpec("half", np.dtype("float16"), (2,))])


# --- inputs that the model stores as constants ---


ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def model() -> Model:
    given = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("n", 2)}, {"y": ("n", 2)}, {})
    given.graph.input.append(helper.make_tensor_value_info("sr", TensorProto.INT64, []))
    return fix_values(Model(given), {"sr": (16000,)}).model


def feeds_of(model: Model, path: Path, **more: bool):
    return load_feeds(path, (*input_specs(model), *stored_specs(model)), **more)


@pytest.mark.parametrize("stored", [np.full(3, 16000), np.array(16000), np.full(3, 16000, np.int32)])
def test_an_archive_may_hold_the_constant(tmp_path: Path, model: Model, stored: np.ndarray):
    np.savez(tmp_path / "d.npz", x=ROWS, sr=stored)
    samples = list(feeds_of(model, tmp_path / "d.npz"))
    assert [sorted(sample) for sample in samples] == [["x"]] * 3
    np.testing.assert_array_equal(np.concatenate([sample["x"] for sample in samples]), ROWS)


def test_an_archive_without_it_serves_too(tmp_path: Path, model: Model):
    np.savez(tmp_path / "d.npz", x=ROWS)
    assert [sorted(sample) for sample in feeds_of(model, tmp_path / "d.npz")] == [["x"]] * 3
    np.save(tmp_path / "d.npy", ROWS)
    assert [sorted(sample) for sample in feeds_of(model, tmp_path / "d.npy")] == [["x"]] * 3


def test_a_sample_of_another_value_is_named(tmp_path: Path, model: Model):
    np.savez(tmp_path / "d.npz", x=ROWS, sr=np.array([16000, 8000, 16000]))
    with pytest.raises(UsageError) as error:
        feeds_of(model, tmp_path / "d.npz")
    assert error.value.message == (
        f"{tmp_path / 'd.npz'}, sample 1: input 'sr' is 8000, and the model has it as a constant of 16000"
    )


def test_a_name_that_is_neither_input_nor_constant_is_refused(tmp_path: Path, model: Model):
    np.savez(tmp_path / "d.npz", x=ROWS, rate=np.full(3, 16000))
    with pytest.raises(UsageError, match="'rate' is no input of the model; its inputs: x"):
        feeds_of(model, tmp_path / "d.npz")


def test_a_script_may_give_it(tmp_path: Path, model: Model):
    script = tmp_path / "data.py"
    script.write_text(
        "import numpy as np\n\ndef load_data():\n    yield {'x': np.ones((1, 2), np.float32), 'sr': np.array(16000)}\n"
    )
    assert [sorted(sample) for sample in feeds_of(model, script)] == [["x"]]


def test_labels_and_padding_stay_beside_a_constant(tmp_path: Path, model: Model):
    model.proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    np.savez(tmp_path / "d.npz", x=ROWS, sr=np.array(16000), labels=np.array([7, 8, 9]))
    first, last = feeds_of(model, tmp_path / "d.npz").with_labels()
    assert [sample.labels.tolist() for sample in (first, last)] == [[7, 8], [9]]
    assert (last.batch, last.filler) == (2, 1)
