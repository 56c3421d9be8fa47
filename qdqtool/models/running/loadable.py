"""Refuse a result that the reference session cannot load although it can load the source model."""

import importlib.util

import numpy as np
import onnx

from qdqtool.errors import ModelError, OutputError, QdqError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.io.tensors import iter_tensors, nbytes
from qdqtool.models.graph.model import Model
from qdqtool.models.running.ort_cpu import Session
from qdqtool.models.running.own_segments import make_stages, segment_model
from qdqtool.models.running.own_support import EvaluatorSplit, plan_split

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
    # A temporary file could not be written: the fault of neither model.
    if isinstance(problem, OutputError):
        raise problem
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
            split = plan_split(ModelIndex.of(model))
            if split is None:
                return refused
            if not split.own:
                _load_widened(model, split)
        except QdqError as error:
            return error
    return None


def _load_widened(model: Model, split: EvaluatorSplit) -> None:
    """Load a model whose bfloat16 nodes run in float32."""
    types = {value.name: value.type.tensor_type.elem_type for value in model.proto.graph.input}
    known = {name: np.empty(0, onnx.helper.tensor_dtype_to_np_dtype(found)) for name, found in types.items() if found}
    for stage in make_stages(model.proto, split).stages:
        Session(segment_model(model, split, stage, known).model).close()


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
