"""Replace nodes that compute constants by their values."""

import onnx

from qdqtool.jobs.reduction.minimal_subset import minimal_subset
from qdqtool.jobs.reduction.search import Search
from qdqtool.jobs.reduction.subgraph import Subgraphs
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model

_MOST_BYTES = 1 << 26
"""The largest constant that is stored in place of the node that computes it."""


def fold_constants(search: Search) -> None:
    """Replace the constant nodes of the main graph by initializers, or by graph inputs where the value is unknown."""
    graph = Subgraphs(search.best, search.kept_unused)
    layers = [node.index for node in graph.nodes if node.index not in graph.constant]
    folded = sorted(graph.constant)
    if folded and layers:
        minimal_subset(folded, lambda kept: search.accepts(_without(graph, [*layers, *kept])))


def _without(graph: Subgraphs, kept: list[int]) -> Model | None:
    """The model of these nodes, with values in place of the constant nodes that are left out."""
    model = graph.keep(kept)
    if model is None:
        return None
    main = graph.index.view.main.values
    cut = [info for info in model.proto.graph.input if _is_cut(graph, info)]
    for info in cut:
        array, elem_type = graph.index.constant(main[info.name]), graph.index.types.elem_type(main[info.name])
        if array is None or elem_type is None or array.nbytes > _MOST_BYTES:
            continue
        model.proto.graph.input.remove(info)
        model.proto.graph.initializer.append(make_tensor(info.name, array, elem_type))
    return model


def _is_cut(graph: Subgraphs, info: onnx.ValueInfoProto) -> bool:
    maker = graph.index.view.main.values[info.name].producer
    return maker is not None and maker.index in graph.constant
