"""Temporary files: they go with their maker, and the ledger knows what is left of one that was killed."""

import gc
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from qdqtool.models.scratch import Ledger, ScratchFolder, note, scratch_file


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    made = Ledger()
    monkeypatch.setattr(Ledger, "current", made)
    yield made
    made.close()


def test_a_folder_goes_with_its_object():
    folder = ScratchFolder()
    (folder.path / "w").write_bytes(b"1")
    path = folder.path
    del folder
    assert not path.exists()


def test_a_folder_goes_at_the_end_of_a_block():
    with ScratchFolder("qdqtool-x-") as folder:
        assert folder.path.name.startswith("qdqtool-x-")
        assert folder.path.is_dir()
    assert not folder.path.exists()


def test_a_file_goes_unless_it_was_renamed(tmp_path: Path):
    with scratch_file(tmp_path, "a" * 300) as path:
        assert path.parent == tmp_path
    assert not path.exists()
    with scratch_file(tmp_path, "b") as path:
        path.rename(tmp_path / "kept")
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_a_signal_while_a_file_is_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def made_and_interrupted(**options: str) -> object:
        made = make(**options)
        signal.raise_signal(signal.SIGINT)
        return made

    for name in ("mkstemp", "mkdtemp"):
        make = getattr(tempfile, name)
        monkeypatch.setattr(tempfile, name, made_and_interrupted)
        with pytest.raises(KeyboardInterrupt):
            scratch_file(tmp_path, "a").__enter__() if name == "mkstemp" else ScratchFolder(inside=tmp_path)
        gc.collect()
        assert not list(tmp_path.iterdir())


def test_the_ledger_removes_what_its_maker_could_not(tmp_path: Path, ledger: Ledger):
    with scratch_file(tmp_path, "done") as gone:
        pass
    gone.write_text("another file of that name")
    left = ScratchFolder()
    (left.path / "w").write_bytes(b"1")
    making = scratch_file(tmp_path, "new\n\xff")
    half = making.__enter__()
    assert half.exists()
    ledger.remove_all()
    assert not left.path.exists()
    assert not half.exists()
    assert gone.exists()


def test_a_folder_that_cannot_be_removed_is_left_to_the_ledger(ledger: Ledger, monkeypatch: pytest.MonkeyPatch):
    """As where too many files are open."""
    with monkeypatch.context() as patch, ScratchFolder() as folder:
        note(b"=", folder.path / "made.onnx")
        (folder.path / "made.onnx").touch()
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        folder.__exit__()
        assert folder.path.exists()
        assert ledger.outputs() == ()  # it goes with the folder
    ledger.remove_all()
    assert not folder.path.exists()
