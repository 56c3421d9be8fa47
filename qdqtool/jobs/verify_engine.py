"""The verify-engine job: check an engine against its manifest, model, machine, and the key that signed it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from qdqtool.engines.build.manifest import SUFFIX, decode_manifest, manifest_bytes, manifest_path
from qdqtool.engines.build.verification import (
    EngineCheck,
    check_engine,
    check_gpus,
    check_header,
    check_model,
    check_plugins,
    check_signature,
    check_version,
)
from qdqtool.errors import ModelError
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport(Report):
    """The checks of an engine. The engine was not run: whether a GPU accepts it is unknown.

    Attributes:
        engine: The engine file.
        manifest: The manifest of the engine.
        passed: Whether every check passed or was not possible.
        checks: Every check, including checks that were not possible.
    """

    engine: str
    manifest: str
    passed: bool
    checks: tuple[EngineCheck, ...]


def verify_engine(
    engine: str | Path, *, model: str | Path | None = None, public_key: str | Path | None = None
) -> VerifyReport:
    """Check an engine against the manifest next to it.

    Args:
        engine: An engine that ``build`` wrote, or the manifest next to it.
        model: The model from which the engine was built; None to search it next to the engine.
        public_key: A file with the public keys (OpenSSH format) that may have signed the manifest; None to leave the
            signature unchecked.

    Raises:
        ModelError: Engine, manifest or model cannot be read, or the manifest file is not a manifest.
        CapabilityError: OpenSSH is absent, but a signature is to be checked.
        UsageError: ``public_key`` has no public key.
    """
    given = Path(engine)
    path = given.with_name(given.name.removesuffix(SUFFIX))
    manifest = manifest_path(path)
    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    if not manifest.is_file():
        raise ModelError(
            f"{path} has no manifest: there is no {manifest.name} beside it",
            hint="qdqtool build writes both; keep them together",
        )
    data = manifest_bytes(manifest)
    stored = decode_manifest(data, manifest)
    plugins = check_plugins(path, stored)
    checks = (
        EngineCheck(name="manifest", status="passed", detail=f"schema version {stored.schema_version}"),
        check_engine(path, stored),
        check_header(path, stored),
        *check_model(Path(model) if model is not None else None, path, stored),
        *((plugins,) if plugins is not None else ()),
        check_version(stored),
        check_gpus(stored),
        check_signature(data, manifest, Path(public_key) if public_key is not None else None),
    )
    passed = all(check.status != "failed" for check in checks)
    return VerifyReport(engine=str(path), manifest=str(manifest), passed=passed, checks=checks)
