"""Data for a model some of whose inputs became constants: it may hold them, with the right value."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.specialize_values import fix_values
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.signature import input_specs, stored_specs

X = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def model() -> Model:
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2]),
        helper.make_tensor_value_info("sr", TensorProto.INT64, []),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", inputs, [output])
    given = Model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    return fix_values(given, {"sr": (16000,)}).model


def feeds_of(model: Model, path: Path, **more: bool):
    return load_feeds(path, (*input_specs(model), *stored_specs(model)), **more)


@pytest.mark.parametrize("stored", [np.full(3, 16000), np.array(16000), np.full(3, 16000, np.int32)])
def test_an_archive_may_hold_the_constant(tmp_path: Path, model: Model, stored: np.ndarray):
    np.savez(tmp_path / "d.npz", x=X, sr=stored)
    samples = list(feeds_of(model, tmp_path / "d.npz"))
    assert [sorted(sample) for sample in samples] == [["x"]] * 3
    np.testing.assert_array_equal(np.concatenate([sample["x"] for sample in samples]), X)


def test_an_archive_without_it_serves_too(tmp_path: Path, model: Model):
    np.savez(tmp_path / "d.npz", x=X)
    assert [sorted(sample) for sample in feeds_of(model, tmp_path / "d.npz")] == [["x"]] * 3
    np.save(tmp_path / "d.npy", X)
    assert [sorted(sample) for sample in feeds_of(model, tmp_path / "d.npy")] == [["x"]] * 3


def test_a_sample_of_another_value_is_named(tmp_path: Path, model: Model):
    np.savez(tmp_path / "d.npz", x=X, sr=np.array([16000, 8000, 16000]))
    with pytest.raises(UsageError) as error:
        feeds_of(model, tmp_path / "d.npz")
    assert error.value.message == (
        f"{tmp_path / 'd.npz'}, sample 1: input 'sr' is 8000, and the model has it as a constant of 16000"
    )


def test_another_name_is_still_refused(tmp_path: Path, model: Model):
    np.savez(tmp_path / "d.npz", x=X, rate=np.full(3, 16000))
    with pytest.raises(UsageError, match="'rate' is no input of the model; its inputs: x"):
        feeds_of(model, tmp_path / "d.npz")


def test_a_script_may_give_it(tmp_path: Path, model: Model):
    script = tmp_path / "data.py"
    script.write_text(
        "import numpy as np\n\ndef load_data():\n    yield {'x': np.ones((1, 2), np.float32), 'sr': np.array(16000)}\n"
    )
    assert [sorted(sample) for sample in feeds_of(model, script)] == [["x"]]


def test_labels_and_padding_stay(tmp_path: Path, model: Model):
    model.proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    np.savez(tmp_path / "d.npz", x=X, sr=np.array(16000), labels=np.array([7, 8, 9]))
    first, last = feeds_of(model, tmp_path / "d.npz").with_labels()
    assert [sample.labels.tolist() for sample in (first, last)] == [[7, 8], [9]]
    assert (last.batch, last.filler) == (2, 1)
