"""What both child processes of the TensorRT products do with the parser: make a network, read errors, find more.

It imports the standard library alone, as the child processes do.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdqtool.engines.tensorrt.product import Product

if TYPE_CHECKING:
    import tensorrt


def new_network(trt: Product, builder: "tensorrt.Builder") -> "tensorrt.INetworkDefinition":
    """Return an empty strongly typed network."""
    # A strongly typed network takes all types from the model and its Q/DQ. TensorRT 10 needs the flag; TensorRT 11 and
    # TensorRT for RTX know only such networks and ignore it. Its number differs: 1 in TensorRT 10, 0 in 11.
    return builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))


def errors_of(parser: "tensorrt.OnnxParser") -> list[dict[str, Any]]:
    """Return the errors of a parser that refused a model, one at least; ``parser_errors.py`` reads them."""
    return [_error(parser.get_error(index)) for index in range(parser.num_errors)] or [_NO_WORDS]


def survey(
    trt: Product,
    builder: "tensorrt.Builder",
    log: "tensorrt.ILogger",
    path: Path,
    first: dict[str, Any],
    seconds: float,
) -> list[dict[str, Any]]:
    """Return the errors of further nodes that the parser refuses.

    Args:
        trt: The module.
        builder: A builder.
        log: A logger.
        path: The model.
        first: The error that ended the first parse.
        seconds: When to stop looking.
    """
    from qdqtool.engines.tensorrt.refused_nodes import further_refusals

    def parse(model: bytes, source: str) -> dict[str, Any] | None:
        # A name of its own, since the parser does not keep the network alive.
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
