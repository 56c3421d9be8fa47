"""The manifest beside an engine: inputs, tools, target GPUs, kernels, and the precision of the quantized nodes."""

import hashlib
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import msgspec

from qdqtool.graph.io.external import external_files
from qdqtool.graph.model import Model
from qdqtool.version import __version__

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
