"""Read the map of an engine from the manifest beside it."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from qdqtool.builders.builder import Evidence
from qdqtool.engine.conversions import Conversions
from qdqtool.engine.engine_map import EngineMap, MappedKernel
from qdqtool.engine.manifest import SUFFIX, fingerprint, manifest_path
from qdqtool.errors import ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manifest:
    engine: _File
    model: _File
    backend: str
    versions: dict[str, str]
    targets: tuple[str, ...]
    evidence: Evidence
    planned: dict[str, int]
    achieved: dict[str, int]
    kernels: tuple[MappedKernel, ...]
    conversions: Conversions | None


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
    file = path if path.name.endswith(SUFFIX) else manifest_path(path)
    stored = _read(file)
    if file != path:
        _check_engine(path, stored.engine, file)
    return EngineMap(
        manifest=str(file),
        engine=stored.engine.name,
        bytes=stored.engine.bytes,
        model=stored.model.name,
        model_sha256=stored.model.sha256,
        backend=stored.backend,
        version=stored.versions.get(stored.backend, "unknown"),
        targets=stored.targets,
        evidence=stored.evidence,
        planned=stored.planned,
        achieved=stored.achieved,
        kernels=stored.kernels,
        conversions=stored.conversions,
    )


def _read(file: Path) -> _Manifest:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Manifest)
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(
            f"{file} is no manifest with a map of the engine: {error}",
            hint="build the engine again with this version of qdqtool",
        ) from None


def _check_engine(engine: Path, expected: _File, file: Path) -> None:
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
