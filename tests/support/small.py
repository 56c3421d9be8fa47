"""Small float models that many tests start from."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32 = TensorProto.FLOAT


def conv_model(opset: int = 17, ir_version: int = 8) -> onnx.ModelProto:
    """x[1,3,8,8] -> Conv(w[4,3,3,3], b) -> Relu -> Conv(v[2,4,1,1]) -> y, with seeded weights."""
    rng = np.random.default_rng(7)
    weights = {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "b": rng.normal(size=4).astype(np.float32),
        "v": rng.normal(size=(2, 4, 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu1"),
        helper.make_node("Conv", ["r", "v"], ["y"], name="conv2"),
    ]
    return make_model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 2, 8, 8)}, weights, opset=opset, ir_version=ir_version)


def matmul_model(opset: int = 17, inner: int = 8) -> onnx.ModelProto:
    """x[N,inner] -> MatMul(w[inner,6]) -> y[N,6], with seeded weights."""
    weights = {"w": np.random.default_rng(3).normal(size=(inner, 6)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="matmul")]
    return make_model(nodes, {"x": ("N", inner)}, {"y": ("N", 6)}, weights, opset=opset)


def nodes_of(text: str) -> list[onnx.NodeProto]:
    """The nodes that ONNX's text form says, such as ``[one] y = Gemm <transB = 1> (x, w)  z = Relu (y)``."""
    return list(onnx.parser.parse_graph(f"g () => () {{ {text} }}").node)


def make_model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int | str, ...]],
    outputs: dict[str, tuple[int | str, ...]],
    initializers: dict[str, np.ndarray],
    *,
    opset: int = 17,
    ir_version: int = 8,
    elem_type: int = F32,
) -> onnx.ModelProto:
    """A model of float inputs and outputs with these shapes."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, elem_type, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, elem_type, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in initializers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def run(model: onnx.ModelProto | str, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs by ONNX Runtime CPU with every optimization off."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    source = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)
