"""Deployment options in the child process: check them against the installed API, and set them.

Like :mod:`qdqtool.engines.tensorrt.child` this imports the standard library only; the TensorRT module is handed in. A
request is what :func:`qdqtool.engines.tensorrt.process.run` writes.
"""

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from qdqtool.engines.tensorrt.parsing import TensorRTModule

if TYPE_CHECKING:
    import tensorrt

_LEVEL = "--builder-optimization-level"
_CACHE = "--timing-cache-file"


class Options(TypedDict):
    """The wanted options.

    Attributes:
        flags: Member of BuilderFlag, by option.
        level: The optimization level; None for the default.
        pools: Member of MemoryPoolType, and bytes, by the name of the pool.
        timing_cache: A file; None for none.
    """

    flags: dict[str, str]
    level: int | None
    pools: dict[str, tuple[str, int]]
    timing_cache: str | None


def lacking_option(trt: TensorRTModule, wanted: Options) -> tuple[str, str] | None:
    """Return the first wanted option that the installed API lacks, and the name that is missing; None if it has all."""
    for option, flag in wanted["flags"].items():
        if flag not in trt.BuilderFlag.__members__:
            return option, f"BuilderFlag.{flag}"
    for name, (pool, _) in wanted["pools"].items():
        if pool not in trt.MemoryPoolType.__members__:
            return f"--mem-pool-size {name}", f"MemoryPoolType.{pool}"
    attributes = [(_LEVEL, "builder_optimization_level")] if wanted["level"] is not None else []
    if wanted["timing_cache"] is not None:
        attributes += [(_CACHE, name) for name in ("create_timing_cache", "set_timing_cache", "get_timing_cache")]
    for option, name in attributes:
        if not hasattr(trt.IBuilderConfig, name):
            return option, f"IBuilderConfig.{name}"
    return None


def set_options(
    trt: TensorRTModule, config: "tensorrt.IBuilderConfig", wanted: Options, problems: list[str]
) -> tuple[str, str] | None:
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
    return _set_cache(config, wanted["timing_cache"], problems)


def write_cache(config: "tensorrt.IBuilderConfig", wanted: Options) -> None:
    """Write the timings of the build in place of those that were read."""
    if wanted["timing_cache"] is not None:
        Path(wanted["timing_cache"]).write_bytes(bytes(config.get_timing_cache().serialize()))


def _set_cache(config: "tensorrt.IBuilderConfig", file: str | None, problems: list[str]) -> tuple[str, str] | None:
    if file is None:
        return None
    before = len(problems)
    # With False, a cache of another GPU is refused.
    taken = config.set_timing_cache(config.create_timing_cache(Path(file).read_bytes()), False)
    # A file that is no timing cache gives an empty cache and a warning.
    if taken and len(problems) == before:
        return None
    return _CACHE, "the file is no timing cache of this version and GPU"
