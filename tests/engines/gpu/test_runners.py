"""Which library runs a file."""

from pathlib import Path

import pytest

from qdqtool.engines.gpu import requirements
from qdqtool.engines.gpu.runners import library_of, open_runner
from qdqtool.errors import CapabilityError


@pytest.mark.parametrize(
    ("name", "content", "backend", "library"),
    [
        ("m.onnx", b"", None, "onnxruntime"),
        ("e.engine", b"vtrt\0\0", None, "tensorrt-rtx"),
        ("e.engine", b"ftrt\0\0", None, "tensorrt"),
        ("e.engine", b"ftrt\0\0", "tensorrt-rtx", "tensorrt-rtx"),
        ("e.engine", b"vtrt\0\0", "tensorrt", "tensorrt"),
    ],
)
def test_the_manifest_says_it_and_else_the_file(name, content, backend, library, tmp_path: Path):
    (tmp_path / name).write_bytes(content)
    assert library_of(tmp_path / name, backend) == library


def test_a_file_that_is_not_there_is_the_libraries_to_refuse(tmp_path: Path):
    assert library_of(tmp_path / "absent", None) == "tensorrt"


def test_packages_are_asked_for_before_the_file_is_read(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(requirements, "is_installed", lambda module: False)
    with pytest.raises(CapabilityError, match=r"cannot find 'cuda.bindings', 'tensorrt_rtx'"):
        open_runner(tmp_path / "absent", "tensorrt-rtx")


def test_the_engines_of_this_builder_begin_as_expected(tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    from support.engine_models import matmul, save

    from qdqtool.jobs.build import build_engine

    build_engine(save(matmul(), tmp_path), tmp_path / "e.engine", backend="tensorrt-rtx")
    assert library_of(tmp_path / "e.engine", None) == "tensorrt-rtx"
