"""Refuse a result that the reference session cannot load although it can load the source model."""

import importlib.util

import onnx

from qdqtool.errors import ModelError, QdqError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.io.tensors import iter_tensors, nbytes
from qdqtool.models.graph.model import Model
from qdqtool.models.running.ort_cpu import Session
from qdqtool.models.running.own_support import plan_split

WHOLE_BYTES = 1 << 26
"""Up to this total size, weights are loaded. In a larger model the large weights are left out, to bound memory."""

LARGE_BYTES = 1 << 16
"""In a larger model, each initializer of this size or more is replaced by an input."""


def require_loadable(result: Model, source: Model) -> None:
    """Refuse a result that the reference session cannot load, if it can load the source.

    If the weights of a model exceed :data:`WHOLE_BYTES` in total, large weights become inputs and are not read. Types,
    operators and kernels are still checked. Nodes that our own core evaluates are not checked. Without ONNX Runtime,
    nothing is checked.

    Raises:
        ModelError: The source can be loaded and the result cannot; the caller must not write the result.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        return
    problem = _problem(result)
    if problem is not None and _problem(source) is None:
        raise ModelError(
            f"the result is not written, because the reference loads the model but not the result: {problem.message}",
            hint="this is a fault of qdqtool or of the model; `qdqtool validate MODEL` may show it",
        )


def _problem(model: Model) -> QdqError | None:
    """Return why the reference session cannot load a model, or None if it can."""
    light = _without_large_weights(model)
    problem = _refusal(light)
    # Some kernels require constants: a model that is refused without its weights is loaded again with them.
    if problem is not None and light is not model:
        problem = _refusal(model)
    return problem


def _refusal(model: Model) -> QdqError | None:
    try:
        with Session(model):
            return None
    except QdqError as refused:
        try:
            return refused if plan_split(ModelIndex.of(model)) is None else None
        except QdqError as error:
            return error


def _without_large_weights(model: Model) -> Model:
    """Turn the large initializers of a large model into inputs; return a small model unchanged."""
    if sum(map(nbytes, iter_tensors(model.proto))) <= WHOLE_BYTES:
        return model
    large = {tensor.name: tensor for tensor in model.proto.graph.initializer if nbytes(tensor) >= LARGE_BYTES}
    proto = copy_model(model.proto, large)
    kept = [tensor for tensor in proto.graph.initializer if tensor.name not in large]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    declared = {value.name for value in proto.graph.input}
    proto.graph.input.extend(
        onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
        for name, tensor in large.items()
        if name not in declared
    )
    return Model(proto, model.path, model.payloads)
