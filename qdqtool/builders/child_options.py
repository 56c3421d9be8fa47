"""Deployment options in the child process: check them against the installed API, and set them.

Like :mod:`qdqtool.builders.child` this imports the standard library only; the TensorRT module is handed in. A request
is what :func:`qdqtool.builders.process.run` writes: ``flags`` (member of BuilderFlag by option), ``level``, ``pools``
(member of MemoryPoolType, and bytes, by name) and ``timing_cache`` (a file, or None).
"""

from pathlib import Path
from typing import Any

_LEVEL = "--builder-optimization-level"
_CACHE = "--timing-cache-file"


def lacking_option(trt: Any, wanted: dict[str, Any]) -> tuple[str, str] | None:
    """Return the first wanted option that the installed API lacks, and the name that is missing; None if it has all."""
    needed = [(option, trt.BuilderFlag, member) for option, member in wanted["flags"].items()]
    needed += [(f"--mem-pool-size {name}", trt.MemoryPoolType, member) for name, (member, _) in wanted["pools"].items()]
    for option, kind, member in needed:
        if member not in kind.__members__:
            return option, f"{kind.__name__}.{member}"
    attributes = [(_LEVEL, "builder_optimization_level")] if wanted["level"] is not None else []
    if wanted["timing_cache"] is not None:
        attributes += [(_CACHE, name) for name in ("create_timing_cache", "set_timing_cache", "get_timing_cache")]
    for option, name in attributes:
        if not hasattr(trt.IBuilderConfig, name):
            return option, f"IBuilderConfig.{name}"
    return None


def set_options(trt: Any, config: Any, wanted: dict[str, Any], log: Any) -> tuple[str, str] | None:
    """Set the wanted options; return the first one that the builder does not take, and why; None if it takes all.

    A setter that refuses a value returns nothing and logs an error, and one that clamps it says nothing at all
    (TensorRT for RTX 1.7.1 takes level 6 for 5). So every value is read back.
    """
    for option, member in wanted["flags"].items():
        flag = trt.BuilderFlag.__members__[member]
        config.set_flag(flag)
        if not config.get_flag(flag):
            return option, "the builder does not set it"
    if wanted["level"] is not None:
        config.builder_optimization_level = wanted["level"]
        if config.builder_optimization_level != wanted["level"]:
            return f"{_LEVEL} {wanted['level']}", f"the highest level is {config.builder_optimization_level}"
    for name, (member, size) in wanted["pools"].items():
        pool = trt.MemoryPoolType.__members__[member]
        config.set_memory_pool_limit(pool, size)
        if config.get_memory_pool_limit(pool) != size:
            return f"--mem-pool-size {name}", f"the builder does not take {size} bytes"
    return _set_cache(config, wanted["timing_cache"], log)


def write_cache(config: Any, wanted: dict[str, Any]) -> None:
    """Write the timings of the build in place of those that were read."""
    if wanted["timing_cache"] is not None:
        Path(wanted["timing_cache"]).write_bytes(bytes(config.get_timing_cache().serialize()))


def _set_cache(config: Any, file: str | None, log: Any) -> tuple[str, str] | None:
    if file is None:
        return None
    before = len(log.problems)
    # With False, a cache of another GPU is refused.
    taken = config.set_timing_cache(config.create_timing_cache(Path(file).read_bytes()), False)
    # A file that is no timing cache gives an empty cache and a warning.
    if taken and len(log.problems) == before:
        return None
    return _CACHE, "the file is no timing cache of this version and GPU"
