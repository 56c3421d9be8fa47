"""Reading the map of an engine from its manifest: what fits, and every way in which it does not."""

import json
import os
from pathlib import Path

import pytest
from support.kernels import typed_kernel
from support.pictures import preprocessing

from qdqtool.engines.build import manifest
from qdqtool.engines.build.engine_map import Products, has_manifest, is_engine, map_kernels, read_map, sum_macs
from qdqtool.engines.build.report import Conversion, Conversions, UnknownConversion
from qdqtool.errors import ModelError
from qdqtool.samples.calibration_note import CalibrationNote

KERNELS = map_kernels(
    [typed_kernel(name="k", layer_type="gemm", inputs=["int8"], outputs=["float32"], nodes=("a", "b"))],
    Products({0: 512}),
)
MACS = sum_macs(KERNELS, Products({0: 512}, ("lost",)))
CONVERSIONS = Conversions(
    proven=(Conversion(kind="quantize", kernel="k", from_types=("float32",), to_types=("int8",), qdq=("q",)),),
    unknown=(UnknownConversion(tensor="t", type="float32", bytes=None, written_by=None, read_by="k"),),
)
NOTE = CalibrationNote(method="max", samples=2, random=False, seed=None, preprocessing=preprocessing((4, 6)))


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """An engine with its manifest."""
    path = tmp_path / "e.engine"
    path.write_bytes(b"engine")
    facts = manifest.Manifest(
        schema_version=manifest.SCHEMA_VERSION,
        model=manifest.StoredModel(name="m.onnx", bytes=3, sha256="0"),
        calibration=NOTE,
        engine=manifest.fingerprint(path),
        backend="tensorrt-rtx",
        versions={"tensorrt-rtx": "1.7"},
        targets=("8.9",),
        evidence="aot-dump",
        planned={"int8": 1},
        achieved={"int8": 1},
        macs=MACS,
        kernels=KERNELS,
        conversions=CONVERSIONS,
    )
    manifest.manifest_path(path).write_bytes(manifest.encode(facts))
    return path


def test_what_was_written_is_read(engine: Path):
    found = read_map(engine)
    assert (found.kernels, found.conversions) == (KERNELS, CONVERSIONS)
    assert (found.macs, found.calibration) == (MACS, NOTE)
    assert (found.engine, found.bytes, found.model, found.version) == ("e.engine", 6, "m.onnx", "1.7")
    assert (found.targets, found.planned, found.achieved) == (("8.9",), {"int8": 1}, {"int8": 1})


def test_a_manifest_needs_no_engine(engine: Path):
    expected = read_map(engine)
    engine.unlink()
    assert read_map(manifest.manifest_path(engine)) == expected


def test_what_has_a_manifest(engine: Path):
    assert has_manifest(engine)
    assert has_manifest(engine.with_name("other.manifest.json"))
    assert not has_manifest(engine.with_name("m.onnx"))


def test_an_engine_that_was_replaced(engine: Path):
    engine.write_bytes(b"Engine")
    with pytest.raises(ModelError, match="is the manifest of another engine") as error:
        read_map(engine)
    assert "build the engine again" in (error.value.hint or "")


@pytest.mark.parametrize(
    "change", [{"kernels": None}, {"kernels": [{"name": 3}]}, {"evidence": "guess"}, {"engine": {}}, {"targets": "8.9"}]
)
def test_a_manifest_with_another_structure(engine: Path, change: dict[str, object]):
    path = manifest.manifest_path(engine)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ModelError, match="not a manifest with a map") as error:
        read_map(engine)
    assert error.value.hint == "build the engine again with this version of qdqtool"


def test_a_manifest_of_an_older_version(engine: Path):
    path = manifest.manifest_path(engine)
    facts = json.loads(path.read_text())
    del facts["kernels"], facts["conversions"]
    path.write_text(json.dumps(facts))
    with pytest.raises(ModelError, match="kernels"):
        read_map(engine)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_what_is_no_manifest(tmp_path: Path, data: bytes):
    path = tmp_path / "e.manifest.json"
    path.write_bytes(data)
    with pytest.raises(ModelError, match="not a manifest with a map"):
        read_map(path)


def test_files_that_cannot_be_read(engine: Path, tmp_path: Path):
    with pytest.raises(ModelError, match="No such file"):
        read_map(tmp_path / "none.manifest.json")
    engine.unlink()
    with pytest.raises(ModelError, match=r"e\.engine cannot be read"):
        read_map(engine)


def test_an_engine_without_its_manifest(engine: Path):
    manifest.manifest_path(engine).unlink()
    with pytest.raises(
        ModelError, match=r"e\.engine is an engine without a manifest: e\.engine\.manifest\.json"
    ) as error:
        read_map(engine)
    assert "build the engine again" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("data", "expected"), [(b"vtrt\0\0", True), (b"ftrt", True), (b"trt", False), (b"vtr", False), (b"", False)]
)
def test_what_begins_as_an_engine(tmp_path: Path, data: bytes, expected: bool):
    path = tmp_path / "m"
    path.write_bytes(data)
    assert is_engine(path) is expected
    assert not is_engine(tmp_path)
    assert not is_engine(tmp_path / "none")


def test_a_pipe_is_not_read(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not is_engine(pipe)  # opening it would wait for a writer
