"""Options of a build that decide how an engine is deployed, named as in trtexec."""

import hashlib
import platform
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.options import Kind, file, integer, option, output
from qdqtool.registry import suggestion

POOLS: Mapping[str, str] = {"workspace": "WORKSPACE", "tacticSharedMem": "TACTIC_SHARED_MEMORY"}
"""Memory pools by their names in trtexec, with their members of MemoryPoolType. Pools of DLA are left out: no backend
builds for DLA, and the builder refuses their sizes without DLA."""

FLAGS: Mapping[str, str] = {
    "refit": "REFIT",
    "strip_weights": "STRIP_PLAN",
    "version_compatible": "VERSION_COMPATIBLE",
    "exclude_lean_runtime": "EXCLUDE_LEAN_RUNTIME",
    "weight_streaming": "WEIGHT_STREAMING",
    "error_on_timing_cache_miss": "ERROR_ON_TIMING_CACHE_MISS",
}
"""Attributes of :class:`DeploymentOptions` with their members of BuilderFlag, in the order in which they are set:
TensorRT accepts EXCLUDE_LEAN_RUNTIME only after VERSION_COMPATIBLE."""

OptionValue = bool | int | str | dict[str, int | str]
"""The value of a deployment option in reports and manifests: a flag, the level, a file name, bytes by pool, or the
SHA-256 of each library."""

_POOL_SYNTAX = "write it as workspace:1G, with B, K, M or G; a number without a unit is in MiB"
_UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[BKMG]?)", re.ASCII | re.IGNORECASE)


def parse_pools(words: Sequence[str], name: str = "--mem-pool-size") -> dict[str, int]:
    """Parse ``workspace:1G,tacticSharedMem:48K`` to bytes by pool, as trtexec does.

    A number without a unit is in MiB; fractions are rounded down to whole bytes.

    Raises:
        UsageError: A word has another form, or names an unknown pool or one pool twice.
    """
    found: dict[str, int] = {}
    for entry in (entry.strip() for word in words for entry in word.split(",")):
        name, _, text = entry.rpartition(":")
        size = _SIZE.fullmatch(text)
        if not name or size is None:
            raise UsageError(f"{name} '{entry}' cannot be read", hint=_POOL_SYNTAX)
        pool = next((known for known in POOLS if known.lower() == name.lower()), name)
        if pool in found:
            raise UsageError(f"{name} names '{pool}' twice")
        found[pool] = int(float(size["number"]) * _UNITS[size["unit"].upper() or "M"])
        _check_pool(pool, found[pool])
    return found


def _check_pool(pool: str, size: int) -> None:
    if pool not in POOLS:
        raise UsageError(
            f"--mem-pool-size names '{pool}', which is not a memory pool{suggestion(pool, POOLS)}",
            hint=f"pools: {', '.join(POOLS)}",
        )
    if size < 1:
        raise UsageError(f"--mem-pool-size gives '{pool}' {size} bytes; it must be 1 or more")


DEPLOYMENT = "Deployment"
"""The heading of these options in help texts."""
_SIZES = Kind(
    form="text", keyword="Mapping[str, int]", metavar="POOL:SIZE", read=parse_pools, take=dict, is_repeated=True
)


_option = partial(option, section=DEPLOYMENT)
_LIBRARIES = replace(
    file("LIB", keyword="Sequence[FileName]"), is_repeated=True, take=lambda given: tuple(map(Path, given))
)
_MACHINES: Mapping[str, int] = {"x86_64": 62, "aarch64": 183}
"""Values of ``e_machine`` in ELF files, by the name of the processor."""
_CREATORS = re.compile(rb"\0get(?:Plugin)?Creators\0")
"""Matches the function that a library must export to be loaded by TensorRT's registry, in its table of names."""


def _check_library(path: Path) -> None:
    """Check that a file is a shared library for this machine.

    Raises:
        UsageError: It does not exist, is no library, or is one for another processor.
    """
    try:
        with path.open("rb") as content:
            head = content.read(20)
    except OSError as error:
        raise UsageError(f"plugin library {path} cannot be read: {error.strerror}") from None
    if sys.platform != "linux":
        return
    if head[:4] != b"\x7fELF" or len(head) < 20 or head[16:18] != b"\x03\0":
        raise UsageError(f"plugin library {path} is not a shared library", hint="give the .so file of the plugins")
    machine, here = int.from_bytes(head[18:20], "little"), platform.machine()
    if machine != _MACHINES.get(here, machine):
        other = next((name for name, number in _MACHINES.items() if number == machine), f"machine {machine}")
        raise UsageError(
            f"plugin library {path} is for {other}, and this machine is {here}",
            hint="build the library for this machine, and the engine on the machine that runs it",
        )


def is_dynamic(library: Path) -> bool:
    """Return whether the registry of TensorRT can load a library; other libraries register their plugins themselves."""
    return _CREATORS.search(library.read_bytes()) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentOptions:
    """How an engine is deployed. Options that the installed TensorRT lacks are refused before anything is parsed.

    Attributes:
        builder_optimization_level: Effort of the builder, 0 to 5; None for its default.
        mem_pool_size: Bytes of the memory pools ``workspace`` and ``tacticSharedMem``.
        timing_cache_file: File with timings of kernels. An existing file is read, and the file is written after the
            build.
        error_on_timing_cache_miss: Fail if the timing cache lacks a kernel, instead of measuring it.
        refit: Build an engine whose weights can be replaced.
        strip_weights: Leave the weights out of the engine; a refit adds them.
        version_compatible: Build an engine that later releases of the same major version can run too.
        exclude_lean_runtime: Leave the lean runtime out of a version-compatible engine.
        weight_streaming: Build an engine whose weights may stay in host memory.
        plugins: Libraries of plugins, which only the process that builds loads.
        serialize_plugins: Store these libraries in the engine.

    Raises:
        UsageError: A value is illegal, or an option needs another option.
    """

    builder_optimization_level: int | None = _option(
        None, "Effort of the builder, 0 to 5; its default is 3.", integer("LEVEL")
    )
    mem_pool_size: Mapping[str, int] = _option(
        {},
        "Limit the memory pool workspace or tacticSharedMem, as workspace:1G. Units: B, K, M (default) or G.",
        _SIZES,
    )
    timing_cache_file: Path | None = _option(
        None,
        "Read timings of kernels from this file if it exists, and write them to it after the build.",
        output("FILE"),
    )
    error_on_timing_cache_miss: bool = _option(
        False, "Fail if the timing cache lacks a kernel, instead of measuring it."
    )
    refit: bool = _option(False, "Build an engine whose weights can be replaced.")
    strip_weights: bool = _option(False, "Leave the weights out of the engine; a refit adds them.")
    version_compatible: bool = _option(
        False,
        "Build an engine that later releases of the same major version can run too.",
        flags=("--version-compatible", "--vc"),
    )
    exclude_lean_runtime: bool = _option(False, "Leave the lean runtime out of a version-compatible engine.")
    weight_streaming: bool = _option(
        False,
        "Build an engine whose weights may stay in host memory.",
        flags=("--weight-streaming", "--allow-weight-streaming"),
    )
    plugins: tuple[Path, ...] = _option(
        (),
        "Load this library of TensorRT plugins for the build; repeatable. Not yet tested with plugins that run: that "
        "needs a GPU (`qdqtool explain plugins`).",
        _LIBRARIES,
    )
    serialize_plugins: bool = _option(
        False, "Store the libraries of --plugins in the engine, which then brings its plugins."
    )

    def __post_init__(self) -> None:
        if self.builder_optimization_level is not None and self.builder_optimization_level < 0:
            raise UsageError(f"--builder-optimization-level is {self.builder_optimization_level}; it must be 0 or more")
        for pool, size in self.mem_pool_size.items():
            _check_pool(pool, size)
        if self.exclude_lean_runtime and not self.version_compatible:
            raise UsageError(
                "--exclude-lean-runtime is for version-compatible engines only", hint="add `--version-compatible`"
            )
        if self.error_on_timing_cache_miss and self.timing_cache_file is None:
            raise UsageError("--error-on-timing-cache-miss needs a timing cache", hint="add `--timing-cache-file FILE`")
        if len({library.name for library in self.plugins}) < len(set(self.plugins)):
            raise UsageError("two plugin libraries have one name", hint="the engine's folder can hold only one of them")
        for library in self.plugins:
            _check_library(library)
            if self.serialize_plugins and not is_dynamic(library):
                raise UsageError(
                    f"--serialize-plugins cannot store {library}: it does not export getCreators",
                    hint="TensorRT loads a stored library by this function; build the library with it",
                )
        if self.serialize_plugins and not self.plugins:
            raise UsageError("--serialize-plugins stores the libraries of --plugins, and none is given")

    def without(self, idle: Collection[str]) -> "DeploymentOptions":
        """Return these options, without the timing cache if ``idle`` contains ``--timing-cache-file``."""
        if spelled("timing_cache_file") not in idle:
            return self
        return replace(self, timing_cache_file=None, error_on_timing_cache_miss=False)

    def flags(self) -> dict[str, str]:
        """Return the builder flags that are set, by option, with their members of BuilderFlag."""
        return {spelled(name): member for name, member in FLAGS.items() if getattr(self, name)}

    def given(self) -> dict[str, OptionValue]:
        """Return the options that differ from the defaults, by name; for a timing cache, only the file name."""
        found: dict[str, OptionValue] = {name: True for name in FLAGS if getattr(self, name)}
        if self.builder_optimization_level is not None:
            found["builder_optimization_level"] = self.builder_optimization_level
        if self.mem_pool_size:
            found["mem_pool_size"] = dict(sorted(self.mem_pool_size.items()))
        if self.timing_cache_file is not None:
            found["timing_cache_file"] = self.timing_cache_file.name
        if self.plugins:
            found["plugins"] = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in self.plugins}
        if self.serialize_plugins:
            found["serialize_plugins"] = True
        return dict(sorted(found.items()))


def spelled(name: str) -> str:
    """Return the command-line option of an attribute of :class:`DeploymentOptions`, such as ``--strip-weights``."""
    return f"--{name.replace('_', '-')}"
