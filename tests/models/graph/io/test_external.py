"""External data must lie inside the folder of its model, be complete, and be named by plain numbers."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, numpy_helper
from support.small import conv_model

from qdqtool.errors import ModelError
from qdqtool.models.graph.io.external import check_external_data, external_files, model_bytes
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.tensors import pending_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.payload import Payload


def save_external(folder: Path) -> Path:
    path = folder / "m.onnx"
    onnx.save(conv_model(), path, save_as_external_data=True, location="m.data", size_threshold=0)
    return path


def check(path: Path) -> bool:
    return check_external_data(onnx.load(path, load_external_data=False), path.parent)


def test_complete_data_inside_the_folder_is_found(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    assert check(path)
    assert not check_external_data(conv_model(), tmp_path)


def test_the_files_of_a_model_are_listed_once_each_and_counted(tmp_path: Path) -> None:
    proto = conv_model()
    for index, name in enumerate(("b.bin", "a.bin", "b.bin")):
        (tmp_path / name).write_bytes(b"\0" * 100)
        tensor = proto.graph.initializer.add(name=f"e{index}", data_type=TensorProto.INT8, dims=[50])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=name)
        tensor.external_data.add(key="offset", value=str(25 * index))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    model = load_model(tmp_path / "m.onnx")
    assert external_files(model.proto, model.folder) == [tmp_path / "a.bin", tmp_path / "b.bin"]
    assert model_bytes(model) == len(proto.SerializeToString()) + 200
    assert model_bytes(Model(proto)) == 0


def test_bytes_that_are_made_when_they_are_saved_are_in_no_file(tmp_path: Path) -> None:
    model = Model(conv_model(), tmp_path / "m.onnx")
    pending = pending_tensor(model, "codes", (2,), TensorProto.INT8, Payload(2, lambda: b"12"))
    model.proto.graph.initializer.append(pending)
    assert external_files(model.proto, model.folder) == []


def test_tensors_without_offset_and_length_begin_at_the_start_and_may_end_at_the_last_byte(tmp_path: Path) -> None:
    proto = onnx.ModelProto()
    tensor = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(bytes(16))
    assert check_external_data(proto, tmp_path)
    (tmp_path / "w.bin").write_bytes(bytes(15))
    with pytest.raises(ModelError, match="tensor 'w' ends at byte 16, the file has 15"):
        check_external_data(proto, tmp_path)


def test_the_offset_counts(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    size = (tmp_path / "m.data").stat().st_size
    entry = next(entry for entry in proto.graph.initializer[0].external_data if entry.key == "offset")
    needed = numpy_helper.to_array(conv_model().graph.initializer[0]).nbytes
    entry.value = str(size - needed)
    assert check_external_data(proto, tmp_path)
    entry.value = str(size - needed + 1)
    with pytest.raises(ModelError, match=f"ends at byte {size + 1}"):
        check_external_data(proto, tmp_path)


def test_a_folder_is_no_data_file(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    (tmp_path / "m.data").unlink()
    (tmp_path / "m.data").mkdir()
    with pytest.raises(ModelError, match=r"'m\.data' of tensor 'w' is not a regular file"):
        check(path)


def test_a_negative_dimension_is_refused(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].dims[:] = [-4, -27]
    with pytest.raises(ModelError, match=r"external tensor 'w' of shape \[-4, -27\]"):
        check_external_data(proto, tmp_path)


def relocate(path: Path, location: str) -> None:
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path.write_bytes(proto.SerializeToString())


def test_missing_external_data(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    (tmp_path / "m.data").unlink()
    with pytest.raises(ModelError, match=r"external data 'm\.data' of tensor 'w' is missing"):
        check(path)


def test_truncated_external_data(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    data = (tmp_path / "m.data").read_bytes()
    (tmp_path / "m.data").write_bytes(data[:100])
    with pytest.raises(ModelError, match="too short: tensor 'w' ends at byte 432, the file has 100"):
        check(path)


@pytest.mark.parametrize(
    "location", ["../m.data", "a/../../m.data", "/etc/passwd", "C:\\m.data", "C:m.data", "..\\m.data", "", "m\0"]
)
def test_locations_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = save_external(folder)
    (tmp_path / "m.data").write_bytes(b"\0" * 10_000)
    relocate(path, location)
    with pytest.raises(ModelError, match="not a path inside"):
        check(path)


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = save_external(folder)
    real = (folder / "m.data").rename(folder / "real.data")
    (folder / "m.data").symlink_to(real)
    check(path)
    (folder / "m.data").unlink()
    (folder / "m.data").symlink_to(real.rename(tmp_path / "outside.data"))
    with pytest.raises(ModelError, match="link to a file outside"):
        check(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("offset", "-8"), ("offset", "8e3"), ("offset", "\u00b2"), ("length", "9" * 40), ("length", "12")],
)
def test_lying_external_entries_are_refused(tmp_path: Path, key: str, value: str) -> None:
    path = save_external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    entries = proto.graph.initializer[0].external_data
    for entry in [entry for entry in entries if entry.key == key]:
        entries.remove(entry)
    entries.add(key=key, value=value)
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=r"external tensor 'w'"):
        check(path)
