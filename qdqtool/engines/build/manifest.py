"""The manifest beside an engine: inputs, tools, target GPUs, kernels, and the precision of the quantized nodes."""

import hashlib
import importlib.metadata
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from qdqtool.engines.build.report import Conversions, EngineReport, GateResult, MappedKernel
from qdqtool.engines.report import Evidence, InputProfile, NodePrecision
from qdqtool.engines.tensorrt.deployment import OptionValue
from qdqtool.errors import ModelError
from qdqtool.models.graph.io.external import external_files
from qdqtool.models.graph.model import Model
from qdqtool.models.report import Work
from qdqtool.results import __version__, encode_plain
from qdqtool.samples.calibration_note import CalibrationNote, read_note

SCHEMA_VERSION = 1
SUFFIX = ".manifest.json"
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
class Manifest:
    """The content of a manifest of a build. The file has the keys in this order.

    Attributes:
        schema_version: Always 1 today.
        model: The model file as it was read.
        calibration: The calibration note of the model; None for a model without a note, and in manifests of an earlier
            version.
        engine: The engine file.
        backend: Public id of the builder.
        versions: Versions of qdqtool, the builder, onnx and Python, and the platform, by name.
        targets: Compute capabilities that the engine is for; empty for the GPU of the machine that built it.
        specialized: How the model was specialized for fixed shapes; None if it was not specialized.
        profiles: Shapes that the engine accepts for dynamic inputs.
        shape_values: Values that the engine accepts for inputs that decide shapes.
        options: Deployment options that were given, by name; None in manifests that are older than these options.
        plugin_operators: The operators that are declared as plugins; ``options`` has the libraries.
        timing_cache: The timing cache after the build; None if none was requested.
        skipped: Steps that were skipped at the user's request.
        evidence: The source of the actual types of nodes.
        planned: Number of quantized nodes by the type that their Q/DQ request.
        achieved: How many of these nodes run in that type.
        fallbacks: The quantized nodes that do not run in their planned type.
        macs: Multiply-accumulates of all kernels and bytes of their constants, by type.
        kernels: The kernels in the order in which they run; empty without evidence.
        conversions: The conversions between floats and codes; None if the evidence cannot prove any.
        gates: Precision gates that were requested.
        warnings: Messages of the builder that matter to the user.
    """

    schema_version: int
    model: StoredModel
    calibration: CalibrationNote | None = None
    engine: StoredFile
    backend: str
    versions: dict[str, str]
    targets: tuple[str, ...]
    specialized: dict[str, Any] | None = None
    profiles: tuple[InputProfile, ...] = ()
    shape_values: tuple[InputProfile, ...] = ()
    options: dict[str, OptionValue] | None = None
    plugin_operators: tuple[str, ...] = ()
    timing_cache: StoredFile | None = None
    skipped: tuple[str, ...] = ()
    evidence: Evidence
    planned: dict[str, int]
    achieved: dict[str, int]
    fallbacks: tuple[NodePrecision, ...] = ()
    macs: Work
    kernels: tuple[MappedKernel, ...]
    conversions: Conversions | None
    gates: tuple[GateResult, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The version of the product that built the engine."""
        return self.versions.get(self.backend, "unknown")


def manifest_path(engine: Path) -> Path:
    """Return the path ``ENGINE.manifest.json``."""
    return engine.with_name(f"{engine.name}{SUFFIX}")


def fingerprint(path: Path) -> StoredFile:
    """Return name, size in bytes and sha256 of a file."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        return StoredFile(name=path.name, bytes=path.stat().st_size, sha256=digest.hexdigest())
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None


def describe_build(
    model: Model, files: StoredModel, report: EngineReport, engine: Path, timing_cache: bytes | None
) -> Manifest:
    """Return the manifest of a build.

    Args:
        model: The model as it was read.
        files: Digests of its files, before and after the build.
        report: The report of the build, which has an engine.
        engine: The engine file, under any name.
        timing_cache: Content of the timing cache after the build; None if none was requested.
    """
    assert report.engine is not None
    return Manifest(
        schema_version=SCHEMA_VERSION,
        model=files,
        calibration=read_note(model),
        engine=replace(fingerprint(engine), name=Path(report.engine).name),
        backend=report.backend,
        versions=describe_tools(report.backend, report.version),
        targets=report.targets,
        specialized=asdict(report.specialized) if report.specialized is not None else None,
        profiles=report.profiles,
        shape_values=report.shape_values,
        options=report.options,
        plugin_operators=report.plugin_operators,
        timing_cache=_describe_cache(str(report.options.get("timing_cache_file")), timing_cache),
        skipped=report.skipped,
        evidence=report.evidence,
        planned=report.planned,
        achieved=report.achieved,
        fallbacks=tuple(node for node in report.nodes if node.actual != node.planned),
        macs=report.macs,
        kernels=report.kernels,
        conversions=report.conversions,
        gates=report.gates,
        warnings=report.warnings,
    )


def describe_model(model: Model, file: StoredFile) -> StoredModel:
    """Describe a model: the fingerprint ``file`` of its file is given, and its external data files are read."""
    data = tuple(fingerprint(path) for path in external_files(model.proto, model.folder))
    return StoredModel(name=file.name, bytes=file.bytes, sha256=file.sha256, external_data=data)


def require_unchanged(before: StoredModel, model: Model) -> None:
    """Refuse an engine if its model changed during the build: the builder may have read either version.

    Args:
        before: The files of the model before the build.
        model: The model as it was read.

    Raises:
        ModelError: The model file or an external data file has another content now.
    """
    assert model.path is not None
    now = describe_model(model, fingerprint(model.path))
    known = {(each.name, each.sha256) for each in (before, *before.external_data)}
    changed = [each.name for each in (now, *now.external_data) if (each.name, each.sha256) not in known]
    if changed:
        raise ModelError(
            f"{', '.join(changed)} changed during the build of {model.path}; no engine was written",
            hint="build again when no other program writes to these files",
        )


def _describe_cache(name: str, content: bytes | None) -> StoredFile | None:
    if content is None:
        return None
    return StoredFile(name=name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def describe_tools(backend: str, version: str) -> dict[str, str]:
    """Return the versions of the tools and the platform."""
    return {
        "qdqtool": __version__,
        backend: version,
        "onnx": importlib.metadata.version("onnx"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def encode(manifest: Manifest) -> bytes:
    """Encode a manifest as indented JSON; equal manifests give equal bytes."""
    return msgspec.json.format(encode_plain(manifest), indent=2) + b"\n"


def find_manifest(path: Path) -> Path:
    """Return the path itself if it has the name of a manifest, else the manifest beside the engine at this path."""
    return path if path.name.endswith(SUFFIX) else manifest_path(path)


def read_manifest(file: Path) -> Manifest:
    """Return the content of a manifest."""
    return decode_manifest(manifest_bytes(file), file)


def manifest_bytes(file: Path) -> bytes:
    """Return the bytes of a manifest.

    Raises:
        ModelError: The file cannot be read.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from None


def decode_manifest(data: bytes, file: Path) -> Manifest:
    """Decode the bytes of a manifest; ``file`` is its name in messages.

    Raises:
        ModelError: The bytes are not a manifest, or have another schema version.
    """
    try:
        found = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{file} is not a manifest with a map of the engine: {error}", hint=_AGAIN) from None
    if found.schema_version != SCHEMA_VERSION:
        raise ModelError(
            f"{file} is a manifest of schema version {found.schema_version}; expected {SCHEMA_VERSION}", hint=_AGAIN
        )
    return found
