"""A model in memory: its folder, its opset, forks of its own, and a folder for spilled weights that goes with it."""

import gc
import threading
from pathlib import Path

import onnx
import pytest
from onnx import helper
from support.small import conv_model

from qdqtool.graph.model import THREADED_BYTES, Model, Payload, Place, opset_version
from qdqtool.scratch import ScratchFolder


def importing(*imports):
    return onnx.ModelProto(opset_import=[helper.make_opsetid(domain, version) for domain, version in imports])


def test_external_locations_are_relative_to_the_folder_of_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Model(conv_model(), Path("a/b/m.onnx")).folder == Path("a/b")
    assert Model(conv_model()).folder == tmp_path


@pytest.mark.parametrize(
    ("imports", "version"),
    [([("", 17)], 17), ([("ai.onnx", 13)], 13), ([("com.microsoft", 1), ("", 11)], 11), ([("my", 4)], 1), ([], 1)],
)
def test_the_default_domain_has_two_names_and_is_version_1_when_not_imported(imports, version):
    assert Model(importing(*imports)).default_opset() == version
    assert opset_version(importing(*imports), "ai.onnx") == version


def test_other_domains_have_their_own_version():
    proto = importing(("", 17), ("com.microsoft", 2))
    assert [opset_version(proto, domain) for domain in ("com.microsoft", "my")] == [2, 1]
    assert opset_version(onnx.FunctionProto(opset_import=proto.opset_import), "com.microsoft") == 2


def test_payloads_that_a_fork_gets_are_not_in_the_model_it_came_from():
    model = Model(conv_model(), Path("m.onnx"), {"a": Payload(1, lambda: b"a")}, stored_outside=True)
    fork = model.fork()
    fork.payloads["b"] = Payload(1, lambda: b"b")
    assert (list(model.payloads), list(fork.payloads)) == (["a"], ["a", "b"])
    assert fork.proto is model.proto
    assert (fork.path, fork.stored_outside) == (model.path, True)


def test_a_spill_folder_lives_as_long_as_something_refers_to_it():
    place = Place(ScratchFolder(), "w.bin", 0)
    place.file.write_bytes(b"weights")
    folder = place.folder.path
    gc.collect()
    assert (folder / "w.bin").read_bytes() == b"weights"
    del place
    gc.collect()
    assert not folder.exists()


def test_two_spill_folders_are_two_folders():
    assert ScratchFolder().path.name.startswith("qdqtool-")
    one, other = ScratchFolder(), ScratchFolder()
    assert one.path != other.path


@pytest.mark.parametrize("size", [0, 5, THREADED_BYTES - 1, THREADED_BYTES, 3 * THREADED_BYTES])
def test_only_large_payloads_are_made_by_other_threads(size):
    """A model has thousands of small weights, and starting threads for each takes longer than quantizing it."""
    whole = bytes(number % 251 for number in range(size))
    makers = set()

    def part(start):
        makers.add(threading.current_thread())
        return whole[start : start + 1000]

    payload = Payload.in_parts(size, lambda: (lambda start=start: part(start) for start in range(0, size, 1000)))
    assert payload.make() == whole
    assert (threading.main_thread() in makers) == (0 < size < THREADED_BYTES)
    assert len(makers) <= 1 or size >= THREADED_BYTES
