"""Refuse a result that the reference cannot load although it loads the model that the result was made of."""

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
"""Weights up to this size in all are loaded. Beyond, the large ones are left out, so that memory stays bounded."""

LARGE_BYTES = 1 << 16
"""An initializer of this size or more becomes an input of the stand-in that is loaded in place of a large model."""


def require_loadable(result: Model, source: Model) -> None:
    """Refuse a result that the reference session cannot load, unless it cannot load the source either.

    The large weights of a model above :data:`WHOLE_BYTES` are not read: they become inputs. Types, operators and
    kernels are checked all the same. Nodes that our own core evaluates are not checked. Without ONNX Runtime nothing
    is checked.

    Raises:
        ModelError: The source is loaded, and the result is not. Nothing may be written.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        return
    problem = _problem(result)
    if problem is not None and _problem(source) is None:
        raise ModelError(
            f"the result is not written, because the reference loads the model but not the result: {problem.message}",
            hint="a fault of qdqtool, unless the model itself is at fault; `qdqtool validate MODEL` may show it",
        )


def _problem(model: Model) -> QdqError | None:
    """Return why the reference cannot load a model; None where it can."""
    light = _without_large_weights(model)
    problem = _refusal(light)
    # Some kernels take constants only: what is refused without its weights gets a second chance with them.
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
    """Turn the large initializers of a large model into inputs; return the given model where it is small."""
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
