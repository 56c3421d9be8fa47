"""The manifest beside an engine: inputs, tools, target GPUs, kernels, and the precision of the quantized nodes."""

import hashlib
import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from qdqtool.engines.build.report import EngineReport
from qdqtool.engines.report import NodePrecision
from qdqtool.models.graph.io.external import external_files
from qdqtool.models.graph.model import Model
from qdqtool.results import __version__
from qdqtool.samples.calibration_note import read_note

SCHEMA_VERSION = 1
SUFFIX = ".manifest.json"
_CHUNK = 1 << 22


def manifest_path(engine: Path) -> Path:
    """Return the path ``ENGINE.manifest.json``."""
    return engine.with_name(f"{engine.name}{SUFFIX}")


def fingerprint(path: Path) -> dict[str, Any]:
    """Return name, size in bytes and sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def fingerprint_bytes(name: str, data: bytes) -> dict[str, Any]:
    """Return what :func:`fingerprint` would of a file with that content."""
    return {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def describe_build(model: Model, report: EngineReport, engine: Path, timing_cache: bytes | None) -> dict[str, Any]:
    """Return the facts of a build that its manifest keeps.

    Args:
        model: The model as it was read.
        report: The report of the build, which has an engine.
        engine: The engine file, under any name.
        timing_cache: Content of the timing cache after the build; None where none was asked for.
    """
    assert report.engine is not None
    note = read_note(model)
    cache_name = str(report.options.get("timing_cache_file"))
    return {
        "model": describe_model(model),
        "calibration": asdict(note) if note is not None else None,
        "engine": {**fingerprint(engine), "name": Path(report.engine).name},
        "backend": report.backend,
        "versions": describe_tools(report.backend, report.version),
        "targets": report.targets,
        "specialized": asdict(report.specialized) if report.specialized is not None else None,
        "profiles": [asdict(profile) for profile in report.profiles],
        "shape_values": [asdict(values) for values in report.shape_values],
        "options": report.options,
        "timing_cache": fingerprint_bytes(cache_name, timing_cache) if timing_cache is not None else None,
        "skipped": report.skipped,
        "evidence": report.evidence,
        "planned": report.planned,
        "achieved": report.achieved,
        "fallbacks": _fallbacks(report.nodes),
        "macs": asdict(report.macs),
        "kernels": [asdict(kernel) for kernel in report.kernels],
        "conversions": asdict(report.conversions) if report.conversions is not None else None,
        "gates": [asdict(gate) for gate in report.gates],
        "warnings": report.warnings,
    }


def describe_model(model: Model) -> dict[str, Any]:
    """Return the fingerprints of the model file and of its external data files."""
    assert model.path is not None
    data = [fingerprint(path) for path in external_files(model.proto, model.folder)]
    return {**fingerprint(model.path), "external_data": data}


def describe_tools(backend: str, version: str) -> dict[str, str]:
    """Return the versions of the tools and the platform."""
    return {
        "qdqtool": __version__,
        backend: version,
        "onnx": importlib.metadata.version("onnx"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def encode(facts: dict[str, Any]) -> bytes:
    """Encode facts as indented JSON with a ``schema_version``; equal facts give equal bytes."""
    return msgspec.json.format(msgspec.json.encode({"schema_version": SCHEMA_VERSION, **facts}), indent=2) + b"\n"


def _fallbacks(nodes: Sequence[NodePrecision]) -> list[dict[str, Any]]:
    return [asdict(node) for node in nodes if node.actual != node.planned]
