"""Check an engine against its manifest, and the manifest against this machine: one function for each check.

A check that is not possible on this machine does not count as passed: it is reported with the reason.

The layout of the header was found by comparing engines of releases 1.4.0.76, 1.6.1.120 and 1.7.1.116, built for one and
for several compute capabilities. Nothing else changed these bytes. All numbers are little-endian.

====== ==== =======
offset size content
====== ==== =======
0      4    ``vtrt``
8      4    2 in every engine
16     8    size of the file in bytes
24     4    version, a byte for each of its four numbers
28     4    ``vtrt``
32     4    compute capabilities, a bit for each
====== ==== =======

The meaning of the other bytes is unknown, so they are not read.
"""

import importlib.metadata
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qdqtool.engines.build.manifest import Manifest, StoredFile, describe_model, fingerprint
from qdqtool.engines.build.signature import signature_path, verify
from qdqtool.engines.tensorrt import backends
from qdqtool.engines.tensorrt.gpus import find_gpus
from qdqtool.errors import ModelError, plural
from qdqtool.models.graph.io.load import load_model

_LAYOUT = struct.Struct("<4s4xI4xQ4B4sI")
_MARK = b"vtrt"
_KIND = 2
_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
"""The compute capability of each bit, from bit 0. A build without named targets also sets bit 6, whose meaning is
unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHeader:
    """The header of an engine file.

    Attributes:
        bytes: Size of the file.
        version: Version of TensorRT for RTX that built it.
        targets: Compute capabilities that the engine is for; ``bit 6`` stands for an unknown bit.
    """

    bytes: int
    version: str
    targets: tuple[str, ...]


def read_header(engine: Path) -> EngineHeader | None:
    """Return the header of an engine, or None if the file does not begin like an engine of a known release."""
    with engine.open("rb") as file:
        data = file.read(_LAYOUT.size)
    if len(data) < _LAYOUT.size:
        return None
    first, kind, size, *version, second, bits = _LAYOUT.unpack(data)
    if (first, second, kind) != (_MARK, _MARK, _KIND):
        return None
    return EngineHeader(bytes=size, version=".".join(map(str, version)), targets=_targets(bits))


def _targets(bits: int) -> tuple[str, ...]:
    numbers = [number for number in range(bits.bit_length()) if bits >> number & 1]
    return tuple(_CAPABILITIES[n] if n < len(_CAPABILITIES) else f"bit {n}" for n in numbers)


Status = Literal["passed", "failed", "not-possible"]
_WITH_HEADER = "tensorrt-rtx"
_KNOWN_HEADERS = ("1.4.", "1.5.", "1.6.", "1.7.")
_SHOWN_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCheck:
    """One check of an engine.

    Attributes:
        name: The check: ``manifest``, ``engine``, ``header``, ``model``, ``external-data``, ``plugins``, ``version``,
            ``gpu`` or ``signature``.
        status: ``passed``, ``failed``, or ``not-possible`` on this machine or with these files.
        detail: What was found and expected, or why the check was not possible.
    """

    name: str
    status: Status
    detail: str


def check_engine(engine: Path, stored: Manifest) -> EngineCheck:
    """Check size and sha256 of the engine."""
    return _file("engine", engine, stored.engine)


def check_header(engine: Path, stored: Manifest) -> EngineCheck:
    """Check size, version and compute capabilities in the header of the engine, if its layout is known.

    Raises:
        ModelError: The engine cannot be read.
    """
    if stored.backend != _WITH_HEADER:
        return _impossible("header", f"the header of an engine of {stored.backend} cannot be read without a GPU")
    try:
        header, size = read_header(engine), engine.stat().st_size
    except OSError as error:
        raise ModelError(f"{engine} cannot be read: {error.strerror}") from None
    if header is None:
        if stored.version.startswith(_KNOWN_HEADERS):
            return _failed(
                "header", f"{engine.name} does not have the header of an engine of {stored.backend} {stored.version}"
            )
        return _impossible("header", f"the header format of {stored.backend} {stored.version} is not known")
    wrong = _wrong_header(header, size, stored)
    if wrong:
        return _failed("header", "; ".join(wrong))
    return _passed("header", f"version {header.version}, compute capability {', '.join(header.targets)}")


def check_model(model: Path | None, engine: Path, stored: Manifest) -> tuple[EngineCheck, ...]:
    """Check the model, and its external data if it has any.

    Args:
        model: The model; None for the file beside the engine that has the name in the manifest.
        engine: The engine.
        stored: Its manifest.

    Raises:
        ModelError: ``model`` is given and cannot be read.
    """
    # Anybody may have written the manifest: without its folder, the name cannot lead to another place.
    file = model or engine.parent / Path(stored.model.name).name
    if model is None and not file.is_file():
        reason = f"{stored.model.name} is not in the folder of the engine; give it with --model"
        return tuple(
            _impossible(name, reason) for name in ("model", "external-data")[: 1 + bool(stored.model.external_data)]
        )
    checked = _file("model", file, stored.model)
    if checked.status != "passed":
        other = _impossible("external-data", "another model may have other external data")
        return (checked, other) if stored.model.external_data else (checked,)
    data = _external_data(file, stored)
    return (checked, data) if data is not None else (checked,)


def check_plugins(engine: Path, stored: Manifest) -> EngineCheck | None:
    """Check the libraries of plugins beside the engine; return None for an engine that was built without any."""
    wanted = (stored.options or {}).get("plugins")
    if not isinstance(wanted, dict):
        return None
    # As for a model, the name cannot lead to another place.
    files = {name: engine.parent / Path(name).name for name in wanted}
    absent = [name for name, file in files.items() if not file.is_file()]
    if absent:
        return _impossible("plugins", f"{', '.join(absent)} is not in the folder of the engine")
    changed = [name for name, file in files.items() if fingerprint(file).sha256 != wanted[name]]
    if changed:
        return _failed("plugins", f"{', '.join(changed)} differs from the library that the engine was built with")
    return _passed("plugins", f"{plural(len(files), 'library')}, sha256 equal")


def check_version(stored: Manifest) -> EngineCheck:
    """Check that the installed version of the product is the one that built the engine."""
    if stored.backend not in backends.names():
        return _failed("version", f"the manifest names backend '{stored.backend}', which is unknown")
    installed = installed_version(stored.backend)
    if installed is None:
        return _impossible("version", f"{stored.backend} is not installed; the engine was built by {stored.version}")
    if installed == stored.version:
        return _passed("version", f"{stored.backend} {installed} built the engine and is installed")
    found = f"built by {stored.backend} {stored.version}; {installed} is installed"
    if (stored.options or {}).get("version_compatible"):
        return _impossible("version", f"{found}; run this version-compatible engine on a GPU to test it")
    return _failed("version", found)


def check_gpus(stored: Manifest) -> EngineCheck:
    """Check that the engine was built for a GPU of this machine."""
    gpus, reason = find_gpus()
    if not gpus:
        return _impossible("gpu", reason)
    if not stored.targets:
        return _impossible("gpu", "the engine needs the GPU that it was built on; the manifest does not name this GPU")
    found = ", ".join(f"{gpu.name} ({gpu.compute_capability})" for gpu in gpus)
    text = f"built for compute capability {', '.join(stored.targets)}; here: {found}"
    fits = any(gpu.compute_capability in stored.targets for gpu in gpus)
    return _passed("gpu", text) if fits else _failed("gpu", text)


def check_signature(data: bytes, manifest: Path, public_key: Path | None) -> EngineCheck:
    """Check the signature of a manifest.

    Args:
        data: The bytes of the manifest.
        manifest: Its file; the signature is in a file beside it.
        public_key: A file with the public keys that may have signed the manifest; None to skip the check.
    """
    signature = signature_path(manifest)
    if public_key is None:
        reason = "give the key with --public-key" if signature.is_file() else f"there is no {signature.name}"
        return _impossible("signature", f"{reason}; changes of the manifest are not detected")
    if not signature.is_file():
        return _failed("signature", f"there is no {signature.name}")
    key = verify(data, signature, public_key)
    if not key:
        return _failed(
            "signature", f"{signature.name} is not a signature of this manifest by a key in {public_key.name}"
        )
    return _passed("signature", f"signed with {key}")


def installed_version(backend: str) -> str | None:
    """Return the installed version of a product, or None if it is not installed."""
    try:
        return importlib.metadata.version(backends.get(backend).module)
    except importlib.metadata.PackageNotFoundError:
        return None


def _wrong_header(header: EngineHeader, size: int, stored: Manifest) -> list[str]:
    facts = (
        ("size", f"{header.bytes} bytes", f"the file has {size}", header.bytes == size),
        ("version", header.version, f"the manifest {stored.version}", header.version == stored.version),
        (
            "compute capability",
            ", ".join(header.targets),
            f"the manifest {', '.join(stored.targets)}",
            set(header.targets) == set(stored.targets),
        ),
    )
    return [f"{name} {found} in the header, {other}" for name, found, other, equal in facts if not equal]


def _external_data(model: Path, stored: Manifest) -> EngineCheck | None:
    """Compare the external data files of the model with those of the manifest; None if neither has any."""
    try:
        found = describe_model(load_model(model), fingerprint(model)).external_data
    except ModelError as error:
        return _impossible("external-data", error.message)
    if not found and not stored.model.external_data:
        return None
    now = {(each.name, each.sha256) for each in found}
    changed = [each.name for each in stored.model.external_data if (each.name, each.sha256) not in now]
    if changed or len(found) != len(stored.model.external_data):
        which = ", ".join(changed) or "the number of files"
        return _failed("external-data", f"{which} differs from the data that the engine was built from")
    return _passed("external-data", f"{plural(len(found), 'file')}, sha256 equal")


def _file(name: str, file: Path, expected: StoredFile) -> EngineCheck:
    found = fingerprint(file)
    if (found.bytes, found.sha256) == (expected.bytes, expected.sha256):
        return _passed(name, f"{file.name}: {expected.bytes} bytes, sha256 {_short(expected.sha256)}")
    return _failed(
        name,
        f"{file.name} has {found.bytes} bytes with sha256 {_short(found.sha256)}; "
        f"expected {expected.bytes} with {_short(expected.sha256)}",
    )


def _short(digest: str) -> str:
    return f"{digest[:_SHOWN_DIGITS]}…"


def _passed(name: str, detail: str) -> EngineCheck:
    return EngineCheck(name=name, status="passed", detail=detail)


def _failed(name: str, detail: str) -> EngineCheck:
    return EngineCheck(name=name, status="failed", detail=detail)


def _impossible(name: str, detail: str) -> EngineCheck:
    return EngineCheck(name=name, status="not-possible", detail=detail)
