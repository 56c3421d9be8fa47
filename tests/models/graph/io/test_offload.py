"""Spilled models: the same bytes when saved, the same numbers in a session, nothing left behind."""

import gc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from qdqtool.errors import ModelError
from qdqtool.models.graph.io.data_file import aligned
from qdqtool.models.graph.io.external import check_external_data, model_bytes
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.model_file import model_digest
from qdqtool.models.graph.io.offload import LEAST_BYTES, SpillFile, as_external_data, offloaded, offloaded_bytes
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.io.tensors import is_pending, make_tensor, pending_tensor, read_array
from qdqtool.models.graph.model import Model
from qdqtool.models.payload import Payload
from qdqtool.models.running.ort_cpu import Session

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
    assert saved(offloaded(model), tmp_path / "spilled.onnx") == saved(model, tmp_path / "plain.onnx")


def test_only_large_raw_data_moves_and_the_order_stays() -> None:
    result = offloaded(Model(network()))
    assert {t.name: is_pending(t) for t in result.proto.graph.initializer} == {"w1": True, "b": False, "w2": False}
    assert [t.name for t in result.proto.graph.initializer] == ["w1", "b", "w2"]
    assert result.proto.graph.initializer[0].doc_string == "a note"


def test_a_spilled_model_has_the_same_values_digest_and_size(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "m.onnx")
    model = load_model(tmp_path / "m.onnx")
    result = offloaded(model)
    np.testing.assert_array_equal(read_array(result, result.proto.graph.initializer[0]), WEIGHT)
    assert model_digest(result) == model_digest(model)
    assert model_bytes(result) == (tmp_path / "m.onnx").stat().st_size


def test_a_session_maps_spilled_weights() -> None:
    x = RANDOM.normal(size=(2, 40)).astype(np.float32)
    plain = onnxruntime.InferenceSession(network().SerializeToString(), providers=["CPUExecutionProvider"])
    model = offloaded(Model(network()))
    mapped = as_external_data(model)
    assert mapped is not None
    assert {entry.key: entry.value for entry in mapped[0].proto.graph.initializer[0].external_data}["length"] == "4800"
    with Session(model) as session:
        del model, mapped
        gc.collect()  # the session alone keeps the file
        np.testing.assert_allclose(session.run({"x": x})["y"], plain.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)


def halved(model: Model) -> Model:
    """The same network with half of the first weight, in a pending tensor."""
    changed = model.fork()
    changed.proto = onnx.ModelProto()
    changed.proto.CopyFrom(model.proto)
    data = make_tensor("w1", WEIGHT / 2, TensorProto.FLOAT).raw_data
    tensor = pending_tensor(changed, "w1", WEIGHT.shape, TensorProto.FLOAT, Payload(len(data), lambda: data))
    changed.proto.graph.initializer[0].CopyFrom(tensor)
    return changed


def files_of(model: Model) -> list[Path]:
    return [payload.place.file for payload in model.payloads.values() if payload.place]


def test_a_changed_model_has_a_file_of_its_own() -> None:
    model = offloaded(Model(network()))
    again = offloaded(halved(model))
    np.testing.assert_array_equal(read_array(again, again.proto.graph.initializer[0]), WEIGHT / 2)
    np.testing.assert_array_equal(read_array(model, model.proto.graph.initializer[0]), WEIGHT)
    (its_own,) = set(files_of(again)) - set(files_of(model))
    del again
    gc.collect()
    assert not its_own.exists()
    assert all(file.exists() for file in files_of(model))


def test_files_that_no_tensor_reads_go_with_their_model() -> None:
    first = offloaded(Model(network()))
    second = offloaded(halved(first))
    assert len(files_of(second)) == 1
    (file,) = files_of(first)
    del first
    gc.collect()
    assert not file.exists()
    np.testing.assert_array_equal(read_array(second, second.proto.graph.initializer[0]), WEIGHT / 2)


def test_a_tensor_with_missing_bytes_stays_where_it_is() -> None:
    proto = network()
    proto.graph.initializer[0].raw_data = proto.graph.initializer[0].raw_data[:-4]
    model = Model(proto)
    assert offloaded(model) is model


def test_the_file_goes_with_the_model() -> None:
    result = offloaded(Model(network()))
    mapped = as_external_data(result)
    assert mapped is not None
    (folder,) = mapped[1]
    path = folder.path
    assert [file.stat().st_size for file in path.iterdir()] == [WEIGHT.nbytes]
    del result, mapped, folder
    gc.collect()
    assert not path.exists()


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_weights_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qdqtool.models.graph.io.offload.tempfile.NamedTemporaryFile", full)
    model = Model(network())
    assert offloaded(model) is model


def set_free_space(patch: pytest.MonkeyPatch, free: int) -> None:
    patch.setattr("qdqtool.models.graph.io.offload.shutil.disk_usage", lambda _: SimpleNamespace(free=free))


@pytest.mark.parametrize(("less", "moves"), [(0, True), (1, False)])
def test_half_of_a_disk_is_left_to_others(less: int, moves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(network())
    set_free_space(monkeypatch, 2 * WEIGHT.nbytes - less)
    assert (offloaded(model) is not model) is moves
    set_free_space(monkeypatch, 2 * len(MANY) - less)
    kept = offloaded_bytes(MANY)
    assert (kept.make(), kept.place is not None) == (MANY, moves)


@pytest.fixture
def outside(tmp_path: Path) -> Model:
    """The network with external data, in a folder of another tree than temporary files."""
    path = tmp_path / "deep" / "folder" / "m.onnx"
    path.parent.mkdir(parents=True)
    onnx.save(network(), path, save_as_external_data=True, location="m.data", size_threshold=0)
    return load_model(path)


def test_external_data_stays_where_it_is(outside: Model) -> None:
    assert offloaded(outside) is outside


def test_pending_tensors_of_a_model_with_external_data_move(outside: Model, tmp_path: Path) -> None:
    changed = halved(outside)
    result = offloaded(changed)
    # The second weight and the bias stay in the file of the user.
    assert [file.stat().st_size for file in files_of(result)] == [WEIGHT.nbytes]
    assert [is_pending(tensor) for tensor in result.proto.graph.initializer] == [True, False, False]
    for number, model in enumerate((changed, result)):
        save_model(model, tmp_path / f"{number}.onnx")
    assert next(tmp_path.glob("0.onnx.*.data")).read_bytes() == next(tmp_path.glob("1.onnx.*.data")).read_bytes()
    x = RANDOM.normal(size=(2, 40)).astype(np.float32)
    expected = (x @ (WEIGHT / 2)) @ SECOND + BIAS
    for model in (result, offloaded(result)):
        with Session(model) as session:
            np.testing.assert_allclose(session.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


def sparse_attribute(location: str) -> onnx.NodeProto:
    values = onnx.TensorProto(name="v", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    values.external_data.add(key="location", value=location)
    sparse = onnx.SparseTensorProto(
        values=values, indices=numpy_helper.from_array(np.array([0, 2], np.int64)), dims=[20]
    )
    return helper.make_node("Constant", [], ["s"], sparse_value=sparse)


@pytest.mark.parametrize("inside", [True, False])
def test_a_sparse_constant_is_read_from_the_models_folder_alone(outside: Model, tmp_path: Path, inside: bool) -> None:
    """The common folder of a offloaded model is an outer one, where ONNX Runtime would find other files."""
    assert outside.path is not None
    place = outside.path.parent if inside else tmp_path
    np.array([5, 7], np.float32).tofile(place / "two.bin")
    changed = halved(outside)
    changed.proto.graph.node.append(sparse_attribute("two.bin"))
    changed.proto.graph.node.append(helper.make_node("Add", ["y", "s"], ["z"]))
    changed.proto.graph.output[0].name = "z"
    if not inside:
        outside.proto.graph.node.append(sparse_attribute("two.bin"))
        with pytest.raises(ModelError, match=r"two\.bin"):
            check_external_data(outside.proto, outside.path.parent)
        return
    result = offloaded(changed)
    assert result is not changed
    x = np.ones((2, 40), np.float32)
    with Session(result) as session, Session(changed) as plain:
        assert session.run({"x": x})["z"].tobytes() == plain.run({"x": x})["z"].tobytes()


def test_files_without_a_common_folder_are_not_mapped(outside: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_two_drives(_: list[str]) -> str:
        raise ValueError("Paths don't have the same drive")

    result = offloaded(halved(outside))
    monkeypatch.setattr("qdqtool.models.graph.io.offload.os.path.commonpath", on_two_drives)
    assert as_external_data(result) is None
    x = np.ones((2, 40), np.float32)
    with Session(result) as session:
        expected = (x @ (WEIGHT / 2)) @ SECOND + BIAS
        np.testing.assert_allclose(session.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


# Bytes in a temporary file: what is read is what was written, where and as long as it is needed.


FEW, MANY = b"few", bytes(range(256)) * (LEAST_BYTES // 256)


def test_all_that_was_added_is_read_while_the_file_is_open_and_afterwards():
    with SpillFile(100) as file:
        payloads = [file.add(data) for data in (FEW, MANY, b"", FEW)]
        assert [each.make() for each in payloads] == [FEW, MANY, b"", FEW]
    assert [each.make() for each in payloads] == [FEW, MANY, b"", FEW]
    assert [each.nbytes for each in payloads] == [3, LEAST_BYTES, 0, 3]


def test_places_are_aligned_as_in_a_file_of_external_data_and_do_not_overlap():
    with SpillFile(100) as file:
        places = [file.add(data).place for data in (FEW, MANY, FEW)]
    ends = 0
    for place, size in zip(places, (3, LEAST_BYTES, 3), strict=True):
        assert place.offset == aligned(ends, size)
        ends = place.offset + size
        assert place.file.read_bytes()[place.offset : ends] == (FEW if size == 3 else MANY)


def test_what_the_system_writes_in_parts_is_written_to_its_end(monkeypatch):
    with SpillFile(100) as file:
        whole = file._file.write
        monkeypatch.setattr(file._file, "write", lambda data: whole(data[:1000]))
        assert file.add(MANY).make() == MANY


def test_a_file_goes_with_the_last_payload_that_reads_it():
    with SpillFile(100) as file:
        first, second = file.add(FEW), file.add(FEW)
    folder = first.place.folder.path
    del file, first
    gc.collect()
    assert second.make() == FEW
    del second
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize(("data", "outside"), [(b"", False), (MANY[1:], False), (MANY, True)])
def test_few_bytes_stay_in_memory(data, outside):
    kept = offloaded_bytes(data)
    assert (kept.make(), kept.nbytes, kept.place is not None) == (data, len(data), outside)


def test_a_disk_that_is_full_in_the_end_leaves_the_bytes_in_memory(monkeypatch):
    monkeypatch.setattr(SpillFile, "add", full)
    assert (offloaded_bytes(MANY).make(), offloaded_bytes(MANY).place) == (MANY, None)
