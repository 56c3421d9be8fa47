"""Spilled models: the same bytes when saved, the same numbers in a session, nothing left behind."""

import gc
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from qdqtool.graph.io.digest import model_digest
from qdqtool.graph.io.external import model_bytes
from qdqtool.graph.io.load import load_model
from qdqtool.graph.io.save import save_model
from qdqtool.graph.io.spill import spilled, unspilled
from qdqtool.graph.io.tensors import is_pending, make_tensor, pending_tensor, read_array
from qdqtool.graph.model import Model, Payload
from qdqtool.running.ort_cpu import Session

RANDOM = np.random.default_rng(5)
WEIGHT = RANDOM.normal(size=(40, 30)).astype(np.float32)
SECOND = RANDOM.normal(size=(30, 20)).astype(np.float32)
BIAS = RANDOM.normal(size=(20,)).astype(np.float32)


def network() -> onnx.ModelProto:
    """Two products, one weight with raw data and a note, one with typed data, and a small bias between them."""
    first = numpy_helper.from_array(WEIGHT, "w1")
    first.doc_string = "a note"
    second = helper.make_tensor("w2", TensorProto.FLOAT, SECOND.shape, SECOND.ravel())
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Gemm", ["a", "w2", "b"], ["y"], name="second"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 20])],
        [first, numpy_helper.from_array(BIAS, "b"), second],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def saved(model: Model, path: Path) -> bytes:
    save_model(model, path)
    return path.read_bytes()


def test_a_spilled_model_is_saved_as_the_given_one(tmp_path: Path) -> None:
    model = Model(network())
    assert saved(spilled(model), tmp_path / "spilled.onnx") == saved(model, tmp_path / "plain.onnx")


def test_only_large_raw_data_moves_and_the_order_stays() -> None:
    result = spilled(Model(network()))
    assert [(t.name, is_pending(t)) for t in result.proto.graph.initializer] == [
        ("w1", True),
        ("b", False),
        ("w2", False),
    ]
    assert result.proto.graph.initializer[0].doc_string == "a note"


def test_a_spilled_model_has_the_same_values_digest_and_size(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "m.onnx")
    model = load_model(tmp_path / "m.onnx")
    result = spilled(model)
    np.testing.assert_array_equal(read_array(result, result.proto.graph.initializer[0]), WEIGHT)
    assert model_digest(result) == model_digest(model)
    assert model_bytes(result) == (tmp_path / "m.onnx").stat().st_size


def test_a_session_maps_spilled_weights() -> None:
    x = RANDOM.normal(size=(2, 40)).astype(np.float32)
    plain = onnxruntime.InferenceSession(network().SerializeToString(), providers=["CPUExecutionProvider"])
    model = spilled(Model(network()))
    mapped = unspilled(model)
    assert mapped is not None
    assert {entry.key: entry.value for entry in mapped[0].graph.initializer[0].external_data}["length"] == "4800"
    with Session(model) as session:
        del model, mapped
        gc.collect()  # the session alone keeps the file
        np.testing.assert_allclose(session.run({"x": x})["y"], plain.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)


def test_a_changed_model_adds_to_the_same_folder() -> None:
    model = spilled(Model(network()))
    changed = model.fork()
    changed.proto = onnx.ModelProto()
    changed.proto.CopyFrom(model.proto)
    halved = make_tensor("w1", WEIGHT / 2, TensorProto.FLOAT).raw_data
    payload = Payload(len(halved), lambda: halved)
    changed.proto.graph.initializer[0].CopyFrom(pending_tensor(changed, "w1", WEIGHT.shape, TensorProto.FLOAT, payload))
    again = spilled(changed)
    folders = [spill.place.folder for spill in (*model.payloads.values(), *again.payloads.values()) if spill.place]
    assert len({folder.path for folder in folders}) == 1
    np.testing.assert_array_equal(read_array(again, again.proto.graph.initializer[0]), WEIGHT / 2)
    np.testing.assert_array_equal(read_array(model, model.proto.graph.initializer[0]), WEIGHT)


def test_the_file_goes_with_the_model() -> None:
    result = spilled(Model(network()))
    mapped = unspilled(result)
    assert mapped is not None
    folder = mapped[1].path
    assert [file.stat().st_size for file in folder.iterdir()] == [WEIGHT.nbytes]
    del result, mapped
    gc.collect()
    assert not folder.exists()


def test_a_full_disk_leaves_the_weights_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("qdqtool.graph.io.spill.tempfile.NamedTemporaryFile", full)
    model = Model(network())
    assert spilled(model) is model


def test_external_data_stays_where_it_is(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    model = load_model(tmp_path / "m.onnx")
    assert spilled(model) is model
