"""What a case is, and the few lines from which all of them are made."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Io = tuple[str, int, list[int] | None]
"""Name, element type and shape of a graph input or output."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model, what is varied in it, and the GPUs that it is for, 86 for 8.6; empty for none in particular."""

    name: str
    model: onnx.ModelProto
    compute_capabilities: tuple[int, ...] = ()


def node(op_type: str, inputs: Sequence[str], output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, [output], **attributes)


def tensor(name: str, values: object, onnx_type: int = TensorProto.FLOAT) -> onnx.TensorProto:
    """An initializer of any type, 4-bit and fp8 ones too."""
    with np.errstate(all="ignore"):
        array = np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(onnx_type))
    return numpy_helper.from_array(array, name)


def given(**attributes: object) -> dict[str, object]:
    """The attributes that are not None."""
    return {name: value for name, value in attributes.items() if value is not None}


def graph_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Io],
    outputs: Sequence[Io],
    initializers: Sequence[onnx.TensorProto],
    opset: int = 21,
    ir_version: int = 10,
) -> onnx.ModelProto:
    """A model; initializers that no node reads are left out, for TensorRT refuses some that are unused."""
    read = {name for each in nodes for name in each.input}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [each for each in initializers if each.name in read],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def pair(
    data: str, output: str, *, scale: str = "s", zero_point: str = "z", **attributes: object
) -> list[onnx.NodeProto]:
    """A Q and a DQ between ``data`` and ``output``."""
    codes = f"{output}_codes"
    return [
        node("QuantizeLinear", [data, scale, zero_point], codes, **attributes),
        node("DequantizeLinear", [codes, scale, zero_point], output, **attributes),
    ]


SCALE = tensor("s", 0.1)
INT8_ZERO = tensor("z", 0, TensorProto.INT8)


def type_word(onnx_type: int) -> str:
    return TensorProto.DataType.Name(onnx_type).lower()
