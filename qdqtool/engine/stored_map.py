"""Read the map of an engine from the manifest beside it."""

from pathlib import Path

from qdqtool.engine.engine_map import EngineMap
from qdqtool.engine.manifest import SUFFIX, fingerprint, manifest_path
from qdqtool.engine.stored_manifest import StoredFile, find_manifest, read_manifest
from qdqtool.errors import ModelError


def has_manifest(path: Path) -> bool:
    """Whether a path is a manifest by its name, or has one beside it."""
    return path.name.endswith(SUFFIX) or manifest_path(path).is_file()


def read_map(path: Path) -> EngineMap:
    """Return the map of an engine.

    Args:
        path: The engine, or its manifest alone, without the engine.

    Raises:
        ModelError: The manifest cannot be read, has no map, or is of another engine than the one beside it.
    """
    file = find_manifest(path)
    stored = read_manifest(file)
    if file != path:
        _check_engine(path, stored.engine, file)
    return EngineMap(
        manifest=str(file),
        engine=stored.engine.name,
        bytes=stored.engine.bytes,
        model=stored.model.name,
        backend=stored.backend,
        version=stored.version,
        targets=stored.targets,
        evidence=stored.evidence,
        planned=stored.planned,
        achieved=stored.achieved,
        kernels=stored.kernels,
        conversions=stored.conversions,
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
