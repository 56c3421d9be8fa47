"""Whether ONNX Runtime on the CPU really loads and runs a model, with optimizations off."""

import numpy as np
import onnx
from onnx import TensorProto, helper

Arrays = dict[str, np.ndarray]

FLOAT8 = range(TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2FNUZ + 1)


def ort_refuses(model: onnx.ModelProto) -> str | None:
    """Why the model does not load or run on zeros and ones; None when it does."""
    try:
        _session(model).run(None, _feeds(model))
    except Exception as error:  # noqa: BLE001  ORT raises a type of its own for every way to fail
        return str(error)
    return None


def ort_run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The first output for ``x``, the first input."""
    session = _session(model)
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def ort_outputs(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    """Every output by its name, for these inputs."""
    names = [output.name for output in model.graph.output]
    return dict(zip(names, _session(model).run(names, feeds), strict=True))


def _session(model: onnx.ModelProto) -> object:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # Weights that are stored would be packed, and their products rounded in another order than those of computed ones.
    options.add_session_config_entry("session.disable_prepacking", "1")
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _feeds(model: onnx.ModelProto) -> dict[str, object]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return {info.name: _feed(info.type.tensor_type) for info in model.graph.input if info.name not in stored}


def _feed(kind: onnx.TypeProto.Tensor) -> object:
    import onnxruntime as ort

    shape = [dim.dim_value or 2 for dim in kind.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    array = np.ones(shape).astype(dtype)
    if kind.elem_type == TensorProto.BFLOAT16:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), kind.elem_type)
    if kind.elem_type in FLOAT8:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(shape, np.uint8), kind.elem_type)
    return array
