"""Find every node that a parser refuses: it names one node at a time, so refused nodes are removed one by one.

The search for further nodes begins after the first refusal was recorded. If it fails, only its own results are lost.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Every round serializes and parses the whole model (0.03 s for 24 MB).
_MAX_NODES = 64
# Larger models are not searched, since every round has a serialized copy with all inline weights in memory.
_MAX_BYTES = 1 << 29

Parse = Callable[[bytes, str], dict[str, Any] | None]
"""Parses a serialized model, given the path of its file; returns the error, or None if the model is accepted."""


def without_plugins(path: Path, note: str) -> bytes | None:
    """Return a model in which Identities replace the plugin operators whose outputs are like an input.

    The parser has no plugins, and so it would parse nothing behind such an operator. Return None for a large model.

    Args:
        path: The file.
        note: The note of the plugin operators.
    """
    proto = _loaded(path, note)
    return None if proto is None else bytes(proto.SerializeToString())


def _loaded(path: Path, plugins: str) -> Any | None:
    """Return a model without the plugin operators of a note, or None for a large model."""
    import onnx

    from qdqtool.models.graph.index.inference import without_plugins as replaced
    from qdqtool.models.plugins import KEY

    proto = onnx.load(str(path), load_external_data=False)
    if proto.ByteSize() > _MAX_BYTES:
        return None
    if plugins:
        onnx.helper.set_model_props(proto, {KEY: plugins})
    return replaced(proto)


def further_refusals(
    path: Path, first: dict[str, Any], parse: Parse, seconds: float, plugins: str = ""
) -> Iterator[dict[str, Any]]:
    """Yield the refusals after ``first``, one for each node of the main graph.

    A refused node is removed and its outputs become graph inputs. The search ends at a node with unknown output types,
    at a refusal that names no node, or at a limit of time or size.
    """
    proto = _loaded(path, plugins)
    if proto is None:
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
