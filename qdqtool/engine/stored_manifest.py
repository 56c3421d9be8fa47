"""Read the manifest of an engine back, with its types checked."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from qdqtool.builders.builder import Evidence, InputProfile
from qdqtool.builders.deployment import OptionValue
from qdqtool.engine.conversions import Conversions
from qdqtool.engine.engine_map import MappedKernel, MultiplyAccumulates
from qdqtool.engine.manifest import SCHEMA_VERSION, SUFFIX, manifest_path
from qdqtool.errors import ModelError

_AGAIN = "build the engine again with this version of qdqtool"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file as a manifest describes it: its name without folder, its size in bytes, and its sha256 in hexadecimal."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel(StoredFile):
    """The model file, with the files of its external data."""

    external_data: tuple[StoredFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredManifest:
    """What a manifest says; :func:`qdqtool.engine.manifest.describe_build` has the meaning of each key.

    ``options`` is None in manifests that were written before there were deployment options.
    """

    schema_version: int
    engine: StoredFile
    model: StoredModel
    backend: str
    versions: dict[str, str]
    targets: tuple[str, ...]
    evidence: Evidence
    planned: dict[str, int]
    achieved: dict[str, int]
    macs: MultiplyAccumulates
    kernels: tuple[MappedKernel, ...]
    conversions: Conversions | None
    specialized: dict[str, Any] | None = None
    profiles: tuple[InputProfile, ...] = ()
    shape_values: tuple[InputProfile, ...] = ()
    options: dict[str, OptionValue] | None = None
    timing_cache: StoredFile | None = None
    skipped: tuple[str, ...] = ()
    gates: tuple[dict[str, Any], ...] = field(default=())

    @property
    def version(self) -> str:
        """The version of the product that built the engine."""
        return self.versions.get(self.backend, "unknown")


def find_manifest(path: Path) -> Path:
    """Return the manifest that a user means: the path itself if its name is one's, else the one beside the engine."""
    return path if path.name.endswith(SUFFIX) else manifest_path(path)


def read_manifest(file: Path) -> StoredManifest:
    """Return the content of a manifest.

    Raises:
        ModelError: It cannot be read, is no manifest, or is of another schema version.
    """
    return decode_manifest(manifest_bytes(file), file)


def manifest_bytes(file: Path) -> bytes:
    """Return the bytes of a manifest.

    Raises:
        ModelError: It cannot be read.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from None


def decode_manifest(data: bytes, file: Path) -> StoredManifest:
    """Return the content of the bytes of a manifest; ``file`` is for messages.

    Raises:
        ModelError: They are no manifest, or of another schema version.
    """
    try:
        found = msgspec.json.decode(data, type=StoredManifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{file} is no manifest with a map of the engine: {error}", hint=_AGAIN) from None
    if found.schema_version != SCHEMA_VERSION:
        raise ModelError(
            f"{file} is a manifest of schema version {found.schema_version}; expected {SCHEMA_VERSION}", hint=_AGAIN
        )
    return found
