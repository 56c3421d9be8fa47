"""Use a TensorRT module in the child processes: make networks, read and find errors, check and set options.

It imports only the standard library, like the child processes.

TensorRT is imported only in child processes, and may not be installed. So these types are only for the type checker.
``tests/support/tensorrt_api/stubs`` has the interface of NVIDIA's bindings for every supported release;
``tests/engines/tensorrt/test_parsing_product.py`` checks the code of the child processes against each release.
"""

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from qdqtool.engines.tensorrt.refused_nodes import further_refusals

if TYPE_CHECKING:
    import tensorrt
    import tensorrt_rtx


class TensorRTModule(Protocol):
    """The module ``tensorrt`` or ``tensorrt_rtx``."""

    __version__: str

    ILogger: "type[tensorrt.ILogger]"
    """The base class of loggers."""
    Builder: "type[tensorrt.Builder]"
    """Makes networks, configurations and engines."""
    OnnxParser: "type[tensorrt.OnnxParser]"
    """Fills a network from an ONNX file."""
    Runtime: "type[tensorrt.Runtime]"
    """Loads engines."""
    NetworkDefinitionCreationFlag: "type[tensorrt.NetworkDefinitionCreationFlag]"
    """Kinds of networks."""
    ProfilingVerbosity: "type[tensorrt.ProfilingVerbosity]"
    """The amount of information that an engine has about its layers."""
    LayerInformationFormat: "type[tensorrt.LayerInformationFormat]"
    """The output format of the engine inspector."""
    BuilderFlag: "type[tensorrt.BuilderFlag]"
    """Switches of a build."""
    MemoryPoolType: "type[tensorrt.MemoryPoolType]"
    """Pools of memory that can be limited."""
    IBuilderConfig: "type[tensorrt.IBuilderConfig]"
    """The configuration of a build."""


class AheadOfTimeProduct(Protocol):
    """The additional attributes of the module ``tensorrt_rtx``."""

    ComputeCapability: "type[tensorrt_rtx.ComputeCapability]"
    """The GPUs that can be requested."""


def new_network(trt: TensorRTModule, builder: "tensorrt.Builder") -> "tensorrt.INetworkDefinition":
    """Return an empty strongly typed network."""
    # A strongly typed network gets all types from the model and its Q/DQ. TensorRT 10 needs the flag; TensorRT 11 and
    # TensorRT for RTX have only such networks and ignore it. Its number differs: 1 in TensorRT 10, 0 in 11.
    return builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))


def errors_of(parser: "tensorrt.OnnxParser") -> list[dict[str, Any]]:
    """Return the errors of a parser that refused a model, at least one; ``parser_errors.py`` reads them."""
    return [_error(parser.get_error(index)) for index in range(parser.num_errors)] or [_NO_WORDS]


def survey(  # noqa: PLR0913 -- what one parse needs
    trt: TensorRTModule,
    builder: "tensorrt.Builder",
    log: "tensorrt.ILogger",
    path: Path,
    first: dict[str, Any],
    seconds: float,
    *,
    plugins: str = "",
) -> list[dict[str, Any]]:
    """Return the errors of further nodes that the parser refuses; ``plugins`` is the note of the plugin operators."""

    def parse(model: bytes, source: str) -> dict[str, Any] | None:
        # The variable keeps the network alive, which the parser does not do.
        network = new_network(trt, builder)
        parser = trt.OnnxParser(network, log)
        return None if parser.parse(model, source) or not parser.num_errors else _error(parser.get_error(0))

    return list(further_refusals(path, first, parse, seconds, plugins))


_NO_WORDS: dict[str, Any] = {"message": "", "function": "", "node": -1, "name": "", "operator": "", "calls": []}


def _error(error: "tensorrt.ParserError") -> dict[str, Any]:
    return {
        "message": error.desc(),
        "function": error.func(),
        "node": error.node(),
        "name": error.node_name(),
        "operator": error.node_operator(),
        "calls": list(error.local_function_stack()),
    }


_LEVEL = "--builder-optimization-level"
_CACHE = "--timing-cache-file"


class Options(TypedDict):
    """The wanted options.

    Attributes:
        flags: Member of BuilderFlag, by option.
        level: The optimization level; None for the default.
        pools: Member of MemoryPoolType, and bytes, by the name of the pool.
        timing_cache: A file; None without a timing cache.
        plugins: Paths of libraries of plugins, each with whether TensorRT's registry can load it.
        serialize: Whether the engine contains these libraries.
    """

    flags: dict[str, str]
    level: int | None
    pools: dict[str, tuple[str, int]]
    timing_cache: str | None
    plugins: dict[str, bool]
    serialize: bool


def lacking_option(trt: TensorRTModule, wanted: Options) -> tuple[str, str] | None:
    """Return the first wanted option that the installed API lacks, with the missing name, or None if it lacks none."""
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


def load_plugins(
    trt: TensorRTModule,
    builder: "tensorrt.Builder",
    log: "tensorrt.ILogger",
    wanted: Options,
    problems: list[str],
) -> tuple[str, str] | None:
    """Load the plugins of TensorRT and the wanted libraries; return the first library that fails, and why, or None.

    Like trtexec, this loads a library in one of two ways (``--dynamicPlugins`` and ``--staticPlugins``): by the
    registry, which asks it for its plugins; or as any library, whose plugins then register themselves.
    """
    # TensorRT has this function in a library of its own, and the stubs have no functions of the module.
    register = getattr(trt, "init_libnvinfer_plugins", None)
    if register is not None:
        register(log, "")
    for path, is_dynamic in wanted["plugins"].items():
        before = len(problems)
        if is_dynamic:
            if builder.get_plugin_registry().load_library(path) is None:
                return path, next(iter(problems[before:]), "the registry of TensorRT does not take it")
            continue
        try:
            ctypes.CDLL(path)
        except OSError as error:
            return path, str(error).removeprefix(f"{path}: ")
    return None


def set_options(
    trt: TensorRTModule, config: "tensorrt.IBuilderConfig", wanted: Options, problems: list[str]
) -> tuple[str, str] | None:
    """Set the wanted options; return the first option that the builder refuses, and why, or None.

    A setter that refuses a value returns nothing and logs an error. A setter that clamps a value reports nothing
    (TensorRT for RTX makes level 6 a 5). So every value is read back.
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
    if wanted["serialize"]:
        config.plugins_to_serialize = list(wanted["plugins"])
        if len(config.plugins_to_serialize) != len(wanted["plugins"]):
            return "--serialize-plugins", "the builder does not take the libraries"
    return _set_cache(config, wanted["timing_cache"], problems)


def write_cache(config: "tensorrt.IBuilderConfig", wanted: Options) -> None:
    """Write the timings of the build to the file of the timing cache."""
    if wanted["timing_cache"] is not None:
        Path(wanted["timing_cache"]).write_bytes(bytes(config.get_timing_cache().serialize()))


def _set_cache(config: "tensorrt.IBuilderConfig", file: str | None, problems: list[str]) -> tuple[str, str] | None:
    if file is None:
        return None
    before = len(problems)
    # False means: refuse a cache of another GPU.
    taken = config.set_timing_cache(config.create_timing_cache(Path(file).read_bytes()), False)
    # A file that is no timing cache gives an empty cache and a warning.
    if taken and len(problems) == before:
        return None
    return _CACHE, "the file is not a timing cache of this version and GPU"
