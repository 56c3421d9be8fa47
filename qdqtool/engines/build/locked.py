"""How a build compares with the manifest that locked it, as the report says it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """How a build compares with the manifest that locked it; model, options, profiles and product are equal.

    Attributes:
        manifest: The manifest.
        same_bytes: Whether the engine has the sha256 that the manifest names.
        same_kernels: Whether the kernels are those of the manifest; None where neither build has evidence of them.
    """

    manifest: str
    same_bytes: bool
    same_kernels: bool | None
