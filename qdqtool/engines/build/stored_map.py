"""Read the map of an engine from the manifest beside it."""

from pathlib import Path

from qdqtool.engines.build.engine_map import EngineMap
from qdqtool.engines.build.manifest import SUFFIX, fingerprint, manifest_path
from qdqtool.engines.build.stored_manifest import StoredFile, find_manifest, read_manifest
from qdqtool.errors import ModelError

# Engines of TensorRT for RTX 1.7.1 begin with vtrt.
_MAGIC = b"trt"


def has_manifest(path: Path) -> bool:
    """Whether a path is a manifest by its name, or has one beside it."""
    return path.name.endswith(SUFFIX) or manifest_path(path).is_file()


def is_engine(path: Path) -> bool:
    """Whether a file begins as the engines of TensorRT do: with a letter and ``trt``."""
    if not path.is_file():  # what is read from a pipe is gone
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC) + 1)[1:] == _MAGIC
    except OSError:
        return False


def read_map(path: Path) -> EngineMap:
    """Return the map of an engine.

    Args:
        path: The engine, or its manifest alone, without the engine.

    Raises:
        ModelError: The manifest is absent, cannot be read, has no map, or is of another engine than the one beside it.
    """
    file = find_manifest(path)
    if file != path and not file.is_file() and path.is_file():
        raise ModelError(
            f"{path} is an engine without its manifest: {file.name} is not beside it, and engines tell no kernels",
            hint="put the manifest that build wrote beside the engine, or build the engine again",
        )
    stored = read_manifest(file)
    if file != path:
        _check_engine(path, stored.engine, file)
    return EngineMap(
        manifest=str(file),
        engine=stored.engine.name,
        bytes=stored.engine.bytes,
        model=stored.model.name,
        model_sha256=stored.model.sha256,
        backend=stored.backend,
        version=stored.version,
        targets=stored.targets,
        evidence=stored.evidence,
        planned=stored.planned,
        achieved=stored.achieved,
        macs=stored.macs,
        kernels=stored.kernels,
        conversions=stored.conversions,
        calibration=stored.calibration,
    )


def _check_engine(engine: Path, expected: StoredFile, file: Path) -> None:
    try:
        found = fingerprint(engine)
    except OSError as error:
        raise ModelError(f"{engine} cannot be read: {error.strerror}") from None
    if found["sha256"] != expected.sha256:
        raise ModelError(
            f"{file.name} is the manifest of another engine: sha256 {expected.sha256[:12]}… expected, "
            f"{found['sha256'][:12]}… found in {engine.name}",
            hint="build the engine again, or inspect the manifest alone",
        )
