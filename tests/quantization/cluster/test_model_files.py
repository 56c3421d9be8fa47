"""The files of a model are told by their bytes, and copied in pieces."""

import hashlib
from pathlib import Path

import onnx
import pytest
from support.small import conv_model

from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.model_file import model_digest
from qdqtool.models.graph.model import Model
from qdqtool.quantization.cluster import model_files
from qdqtool.quantization.cluster.model_files import ModelFiles, files_of, find_copy, remove_copy, store_piece


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with external data in a folder below its own, and a file of no bytes."""
    folder = tmp_path / "client"
    (folder / "data").mkdir(parents=True)
    path = folder / "m.onnx"
    onnx.save(conv_model(), path, save_as_external_data=True, location="data/weights.bin", size_threshold=0)
    return path


def send(files: ModelFiles, local: Path) -> None:
    for location, offset, data in files.pieces():
        store_piece(files, local, location, offset, data)


def test_files_have_their_digests(model: Path):
    with files_of(model) as files:
        pass
    assert files.folder == model.parent
    assert [file.location for file in files.files] == ["m.onnx", "data/weights.bin"]
    for file in files.files:
        data = (model.parent / file.location).read_bytes()
        assert (file.size, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())


def test_where_the_same_files_are_seen_nothing_is_copied(model: Path, tmp_path: Path):
    with files_of(model) as files:
        assert find_copy(files, tmp_path / "worker") == model.parent


@pytest.mark.parametrize("changed", ["m.onnx", "data/weights.bin"])
@pytest.mark.parametrize("how", ["other bytes", "shorter", "absent"])
def test_other_files_at_the_same_path_are_not_taken(model: Path, tmp_path: Path, changed: str, how: str):
    with files_of(model) as files:
        path = model.parent / changed
        data = path.read_bytes()
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:] if how == "other bytes" else data[:-1])
        if how == "absent":
            path.unlink()
        assert find_copy(files, tmp_path / "worker") is None


@pytest.mark.parametrize("piece", [1 << 20, 100, 1])
def test_a_copy_in_pieces_is_the_model(model: Path, tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(model_files, "PIECE", piece)
    local, expected = tmp_path / "worker", model_digest(load_model(model))
    with files_of(model) as files:
        pieces = list(files.pieces())
        assert max(len(data) for _, _, data in pieces) <= piece
        for path in (model, model.parent / "data/weights.bin"):
            path.rename(path.with_suffix(".away"))
        for number, (location, offset, data) in enumerate(pieces):
            if number in {1, len(pieces) - 1}:
                assert find_copy(files, local) is None, "it is not complete"
            store_piece(files, local, location, offset, data)
    copy = find_copy(files, local)
    assert copy.is_relative_to(local)
    assert copy.name == files.digest
    assert model_digest(load_model(files.model_in(copy))) == expected
    assert find_copy(files, local) == copy

    remove_copy(files, local)
    assert find_copy(files, local) is None
    assert not list(local.rglob("*.onnx"))


def test_a_copy_with_a_wrong_byte_is_not_taken(model: Path, tmp_path: Path):
    local = tmp_path / "worker"
    with files_of(model) as files:
        send(files, local)
        (part,) = (local / "qdqtool-models").glob("*.part")
        model.unlink()
        with (part / "data/weights.bin").open("r+b") as stream:
            stream.write(b"\1\2\3")
        assert find_copy(files, local) is None


def test_the_digest_of_all_files_changes_with_each_of_them_and_not_with_the_folder(model: Path, tmp_path: Path):
    with files_of(model) as before:
        pass
    moved = model.parent.rename(tmp_path / "moved") / "m.onnx"
    with files_of(moved) as same:
        assert same.digest == before.digest
    weights = moved.parent / "data/weights.bin"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    with files_of(moved) as other:
        assert other.digest != before.digest


def test_a_model_in_memory_has_files_meanwhile():
    model = Model(conv_model())
    with files_of(model) as files:
        assert model_digest(load_model(files.model_in(files.folder))) == model_digest(model)
    assert not files.folder.exists()
