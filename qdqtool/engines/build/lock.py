"""Lock a build to a manifest: compare the request and then the result with it, and write nothing if they differ."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from qdqtool.engines.build.build_model import ModelToBuild
from qdqtool.engines.build.manifest import (
    Manifest,
    StoredModel,
    decode_manifest,
    fingerprint,
    manifest_bytes,
)
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.report import Locked, MappedKernel
from qdqtool.engines.report import InputProfile, Refusal
from qdqtool.engines.tensorrt.builder import BuildRefusedError, Built, EngineRequest
from qdqtool.engines.tensorrt.deployment import OptionValue
from qdqtool.errors import ModelError

_SHOWN = 60
"""Longest text of a value that is shown, in characters."""


class BuildLockedError(BuildRefusedError):
    """The build differs from the manifest that locks it; ``refusals`` has every difference."""

    def __init__(self, manifest: Path, differences: Sequence[str]) -> None:
        super().__init__(str(manifest), tuple(Refusal(reason=text) for text in differences), "locked")
        more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
        self.message = f"the build differs from {manifest}: {differences[0]}{more}; nothing was written"
        self.args = (self.message,)


@dataclass(frozen=True, slots=True)
class Lock:
    """A manifest that a build must agree with.

    Attributes:
        file: The manifest.
        data: Its bytes.
        stored: Its content.
    """

    file: Path
    data: bytes
    stored: Manifest

    @classmethod
    def read(cls, file: Path) -> "Lock":
        """Read a manifest.

        Raises:
            ModelError: The file cannot be read, is not a manifest, or is older than deployment options.
        """
        data = manifest_bytes(file)
        stored = decode_manifest(data, file)
        if stored.options is None:
            raise ModelError(
                f"{file} does not contain the options of the build",
                hint="build the engine again with this version of qdqtool",
            )
        return cls(file, data, stored)

    def check_inputs(
        self, model: StoredModel, ready: ModelToBuild, request: EngineRequest, options: BuildOptions
    ) -> None:
        """Check model, external data, targets, shapes and options before the build."""
        wanted, found = _stored_inputs(self.stored), _inputs(model, ready, request, options)
        # A builder that ignores timings reads no timing cache, so the content of the file does not matter.
        found["timing cache"] = _timings(options) if self.stored.timing_cache is not None else None
        self._raise_for(wanted, found)

    def check_product(self, backend: str, version: str | None) -> None:
        """Check the product and its installed version."""
        wanted = {"backend": self.stored.backend, "version": self.stored.version}
        self._raise_for(wanted, {"backend": backend, "version": version})

    def is_in(self, file: Path) -> bool:
        """Whether ``file`` is the file of this manifest."""
        return file.exists() and self.file.samefile(file)

    def compare(self, built: Built, kernels: tuple[MappedKernel, ...], engine: Path, manifest: Path | None) -> Locked:
        """Compare the result of a build with the manifest.

        Args:
            built: The result of the build.
            kernels: Its kernels, in the form of the manifest.
            engine: The engine file, under any name.
            manifest: The manifest that is about to be written; None to write none.

        Raises:
            BuildLockedError: The engine accepts other values of inputs that decide shapes, has other kernels, or would
                replace the engine of this manifest with other bytes.
        """
        wanted = {"values of profile": _by_input(self.stored.shape_values), "version": self.stored.version}
        self._raise_for(wanted, {"values of profile": _by_input(built.values), "version": built.version})
        known = bool(kernels or self.stored.kernels)
        if known and kernels != self.stored.kernels:
            raise BuildLockedError(self.file, [_kernel_difference(self.stored, len(kernels))])
        same_bytes = fingerprint(engine).sha256 == self.stored.engine.sha256
        if not same_bytes and manifest is not None and self.is_in(manifest):
            text = (
                "the bytes of the engine differ from those that this manifest records; write the engine to another "
                "file to keep both"
            )
            raise BuildLockedError(self.file, [text])
        return Locked(manifest=str(self.file), same_bytes=same_bytes, same_kernels=True if known else None)

    def _raise_for(self, wanted: dict[str, Any], found: dict[str, Any]) -> None:
        differences = list(_differences(wanted, found, ""))
        if differences:
            raise BuildLockedError(self.file, differences)


def _inputs(model: StoredModel, ready: ModelToBuild, request: EngineRequest, options: BuildOptions) -> dict[str, Any]:
    return {
        **_model_facts(model),
        "targets": list(request.targets),
        "specialized": _plain(ready.specialized),
        "profile": _by_input(ready.profiles),
        "options": _without_names(options.deployment.given()),
        "skipped": ["validate"] if options.skip_validate else [],
        "gates": [str(gate) for gate in options.require_precision],
    }


def _model_facts(model: StoredModel) -> dict[str, Any]:
    return {
        "model": {"sha256": model.sha256},
        "external data": {each.name: each.sha256 for each in model.external_data},
    }


def _timings(options: BuildOptions) -> str | None:
    cache = options.deployment.timing_cache_file
    return fingerprint(cache).sha256 if cache is not None and cache.is_file() else None


def _stored_inputs(stored: Manifest) -> dict[str, Any]:
    return {
        **_model_facts(stored.model),
        "targets": list(stored.targets),
        "specialized": stored.specialized,
        "profile": _by_input(stored.profiles),
        "options": _without_names(stored.options or {}),
        "timing cache": stored.timing_cache.sha256 if stored.timing_cache is not None else None,
        "skipped": list(stored.skipped),
        "gates": [gate.gate for gate in stored.gates],
    }


def _without_names(options: dict[str, OptionValue]) -> dict[str, OptionValue]:
    """Return the options without the name of the timing cache, because only its content matters."""
    return {name: value if name != "timing_cache_file" else True for name, value in options.items()}


def _by_input(profiles: Sequence[InputProfile]) -> dict[str, Any]:
    """Return the smallest, optimal and largest extents or values of each input in each profile."""
    return {
        f"{entry.profile} input {entry.name}": {"min": entry.min, "opt": entry.opt, "max": entry.max}
        for entry in profiles
    }


def _plain(value: Any) -> Any:
    """Return a value after it was written to JSON and read back."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _differences(wanted: Any, found: Any, path: str) -> Iterator[str]:
    """Yield each place where two JSON values differ, with both values."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*wanted, *found)):
            place = f"{path} {key}" if path else str(key)
            yield from _differences(wanted.get(key), found.get(key), place)
    elif wanted != found:
        yield f"{path} is {_shown(found)}; the manifest has {_shown(wanted)}"


def _shown(value: Any) -> str:
    if value is None:
        return "absent"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _kernel_difference(stored: Manifest, count: int) -> str:
    if len(stored.kernels) != count:
        return f"the engine has {count} kernels; the manifest has {len(stored.kernels)}"
    return f"the builder chose other kernels than the {count} in the manifest"
