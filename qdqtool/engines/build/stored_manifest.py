"""Read the manifest of an engine back, with its types checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from qdqtool.engines.build.engine_map import EngineMap
from qdqtool.engines.build.manifest import SCHEMA_VERSION, SUFFIX, fingerprint, manifest_path
from qdqtool.engines.build.report import Conversions, GateResult, MappedKernel, MultiplyAccumulates
from qdqtool.engines.report import Evidence, InputProfile, NodePrecision
from qdqtool.engines.tensorrt.deployment import OptionValue
from qdqtool.errors import ModelError
from qdqtool.samples.calibration_note import CalibrationNote

_AGAIN = "build the engine again with this version of qdqtool"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file as a manifest describes it.

    Attributes:
        name: Its name without folder.
        bytes: Its size.
        sha256: Its SHA-256 in hexadecimal.
    """

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel(StoredFile):
    """The model file, with the files of its external data.

    Attributes:
        external_data: The files of its external data.
    """

    external_data: tuple[StoredFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredManifest:
    """What a manifest says of a build; :func:`qdqtool.engines.build.manifest.describe_build` makes it.

    Attributes:
        schema_version: Always 1 today.
        engine: The engine file.
        model: The model file as it was read.
        backend: Public id of the builder.
        versions: Versions of qdqtool, the builder, onnx and Python, and the platform, by name.
        targets: Compute capabilities that the engine is for; empty for the GPU of the machine that built it.
        evidence: Where the actual types of nodes come from.
        planned: Number of quantized nodes by the type that their Q/DQ ask for.
        achieved: How many of these nodes run in that type.
        macs: Multiply-accumulates of all kernels by type.
        kernels: The kernels in the order in which they run; empty without evidence.
        conversions: The conversions between floats and codes; None where the evidence cannot prove any.
        calibration: What the model says of its calibration; None for a model that says nothing, and in manifests of an
            earlier version.
        specialized: How the model was specialized for fixed shapes; None where it was built as it is.
        profiles: Shapes that the engine accepts for dynamic inputs.
        shape_values: Values that it accepts for inputs that decide shapes.
        options: Deployment options that were given, by name; None in manifests that are older than these options.
        timing_cache: The timing cache after the build; None where none was asked for.
        skipped: Steps that were skipped at the user's request.
        gates: Precision gates that were asked for.
        fallbacks: The quantized nodes that do not run in their planned type.
        warnings: Messages of the builder that matter to the user.
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
    calibration: CalibrationNote | None = None
    specialized: dict[str, Any] | None = None
    profiles: tuple[InputProfile, ...] = ()
    shape_values: tuple[InputProfile, ...] = ()
    options: dict[str, OptionValue] | None = None
    timing_cache: StoredFile | None = None
    skipped: tuple[str, ...] = ()
    gates: tuple[GateResult, ...] = ()
    fallbacks: tuple[NodePrecision, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The version of the product that built the engine."""
        return self.versions.get(self.backend, "unknown")


def find_manifest(path: Path) -> Path:
    """Return the manifest that a user means: the path itself if its name is one's, else the one beside the engine."""
    return path if path.name.endswith(SUFFIX) else manifest_path(path)


def read_manifest(file: Path) -> StoredManifest:
    """Return the content of a manifest."""
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
