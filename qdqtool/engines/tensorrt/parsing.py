"""Use a TensorRT module in the child processes: make networks, read and find errors, check and set options.

It imports only the standard library, like the child processes.

TensorRT is imported only in child processes, and may not be installed. So these types are only for the type checker.
``tests/support/tensorrt_api/stubs`` has the interface of NVIDIA's bindings for every supported release;
``tests/engines/tensorrt/test_parsing_product.py`` checks the code of the child processes against each release.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

if TYPE_CHECKING:
    import tensorrt
    import tensorrt_rtx

# Every round serializes and parses the whole model (0.03 s for 24 MB).
_MAX_NODES = 64
# Larger models are not searched, since every round has a serialized copy with all inline weights in memory.
_MAX_BYTES = 1 << 29

Parse = Callable[[bytes, str], dict[str, Any] | None]
"""Parses a serialized model, given the path of its file; returns the error, or None if the model is accepted."""


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


def survey(
    trt: TensorRTModule,
    builder: "tensorrt.Builder",
    log: "tensorrt.ILogger",
    path: Path,
    first: dict[str, Any],
    seconds: float,
) -> list[dict[str, Any]]:
    """Return the errors of further nodes that the parser refuses."""

    def parse(model: bytes, source: str) -> dict[str, Any] | None:
        # The variable keeps the network alive, which the parser does not do.
        network = new_network(trt, builder)
        parser = trt.OnnxParser(network, log)
        return None if parser.parse(model, source) or not parser.num_errors else _error(parser.get_error(0))

    return list(further_refusals(path, first, parse, seconds))


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
    """

    flags: dict[str, str]
    level: int | None
    pools: dict[str, tuple[str, int]]
    timing_cache: str | None


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


def further_refusals(path: Path, first: dict[str, Any], parse: Parse, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the refusals after ``first``, one for each node of the main graph.

    A refused node is removed and its outputs become graph inputs. The search ends at a node with unknown output types,
    at a refusal that names no node, or at a limit of time or size.
    """
    import onnx

    proto = onnx.load(str(path), load_external_data=False)
    if proto.ByteSize() > _MAX_BYTES:
        return
    types = _types(proto)
    deadline = time.monotonic() + seconds
    error: dict[str, Any] | None = first
    for _ in range(_MAX_NODES):
        if error is None or time.monotonic() > deadline or not _cut(proto.graph, error, types):
            return
        error = parse(proto.SerializeToString(), str(path))
        if error is not None and error["node"] >= 0:
            yield error


def _types(proto: Any) -> dict[str, Any]:
    from qdqtool.models.graph.index.inference import infer_types

    graph = infer_types(proto).proto.graph
    return {info.name: info for info in (*graph.value_info, *graph.output)}


def _cut(graph: Any, error: dict[str, Any], types: dict[str, Any]) -> bool:
    index = error["node"]
    if not 0 <= index < len(graph.node):
        return False
    node = graph.node[index]
    # If nodes are out of order, the parser sorts them; its number then belongs to another node of our file.
    expected = node.op_type == error["operator"] or bool(error["calls"])
    outputs = [types.get(name) for name in node.output if name]
    if not expected or not all(info is not None and info.type.tensor_type.HasField("shape") for info in outputs):
        return False
    made = set(node.output)
    kept = [value for value in graph.output if value.name not in made]
    if not kept:
        return False
    del graph.output[:]
    graph.output.extend(kept)
    del graph.node[index]
    graph.input.extend(outputs)
    return True
