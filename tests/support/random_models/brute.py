"""What a model says, read without the package: node by node, name by name."""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from qdqtool.models.graph.io.tensors import make_tensor

Limits = tuple[float | None, float | None]

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def all_graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph and every body in it."""
    waiting = [proto.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]


def all_nodes(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for graph in all_graphs(proto) for node in graph.node]


def counts(proto: onnx.ModelProto) -> Counter[str]:
    """How often each operator occurs."""
    return Counter(node.op_type for node in all_nodes(proto))


def producers(proto: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """The node of each tensor. Names in drawn models are unique across bodies."""
    return {name: node for node in all_nodes(proto) for name in node.output if name}


def readers(proto: onnx.ModelProto) -> dict[str, list[onnx.NodeProto]]:
    """The nodes that read each tensor, once for each input."""
    found: dict[str, list[onnx.NodeProto]] = {}
    for node in all_nodes(proto):
        for name in filter(None, node.input):
            found.setdefault(name, []).append(node)
    return found


def returned(proto: onnx.ModelProto) -> set[str]:
    """The names of outputs, of bodies too."""
    return {value.name for graph in all_graphs(proto) for value in graph.output}


def stored(proto: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    """Every stored tensor: initializers, and the values of Constant nodes."""
    found = {tensor.name: tensor for graph in all_graphs(proto) for tensor in graph.initializer}
    return found | {node.output[0]: node.attribute[0].t for node in all_nodes(proto) if node.op_type == "Constant"}


def constants(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    """The values of every stored tensor."""
    return {name: numpy_helper.to_array(tensor) for name, tensor in stored(proto).items()}


def pairs(proto: onnx.ModelProto) -> list[tuple[onnx.NodeProto, onnx.NodeProto]]:
    """Every Q with each DQ that reads its codes directly."""
    made_by = producers(proto)
    found = [(made_by.get(node.input[0]), node) for node in all_nodes(proto) if node.op_type == DEQUANTIZE]
    return [(made, node) for made, node in found if made is not None and made.op_type == QUANTIZE]


def is_qdq(node: onnx.NodeProto) -> bool:
    return node.op_type in {QUANTIZE, DEQUANTIZE}


def reaches_a_reader(proto: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    """Whether an output, or an operator other than Q and DQ, reads a Q or DQ, be it through others."""
    made = node.output[0]
    if made in returned(proto):
        return True
    read_as_data = [each for each in readers(proto).get(made, ()) if not is_qdq(each) or each.input[0] == made]
    return any(not is_qdq(each) or reaches_a_reader(proto, each) for each in read_as_data)


def attribute(node: onnx.NodeProto, name: str, default: int = 0) -> int:
    return next((each.i for each in node.attribute if each.name == name), default)


def dims(info: onnx.ValueInfoProto) -> list[onnx.TensorShapeProto.Dimension]:
    return [*info.type.tensor_type.shape.dim]


def copied(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy


def without_pairs(proto: onnx.ModelProto, bounds: Mapping[str, Limits]) -> onnx.ModelProto:
    """The same model with an Identity for every DQ behind a Q, or with a Clip.

    Args:
        proto: The model.
        bounds: For the codes of a Q, the least and the largest value that a Clip passes; None for no bound.
    """
    copy, types = copied(proto), elem_types(proto)
    for quantize, dequantize in pairs(copy):
        source, codes = quantize.input[0], quantize.output[0]
        limits = bounds.get(codes)
        dequantize.op_type = "Clip" if limits else "Identity"
        dequantize.ClearField("attribute")
        dequantize.ClearField("input")
        dequantize.input.append(source)
        for limit in limits or ():
            name = "" if limit is None else f"{codes}_limit_{len(copy.graph.initializer)}"
            dequantize.input.append(name)
            if name:
                copy.graph.initializer.append(make_tensor(name, np.array(limit), types[source]))
    return copy


def elem_types(proto: onnx.ModelProto) -> dict[str, int]:
    """The element type of every tensor, as onnx infers it."""
    found = {}
    for graph in all_graphs(onnx.shape_inference.infer_shapes(proto)):
        for info in (*graph.input, *graph.output, *graph.value_info):
            found[info.name] = info.type.tensor_type.elem_type
        found |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    return found


def returning(proto: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    """The same model with these tensors of the main graph as outputs, where they are floats that Python can hold."""
    copy, types = copied(proto), elem_types(proto)
    del copy.graph.output[:]
    for name in names:
        if types.get(name) in {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16}:
            copy.graph.output.append(onnx.helper.make_tensor_value_info(name, types[name], None))
    return copy


def folded(proto: onnx.ModelProto, name: str) -> np.ndarray | None:
    """The value of a scale in a drawn model; None where it depends on an input."""
    node, known = producers(proto).get(name), constants(proto)
    if name in known:
        return known[name]
    if node is None or node.op_type not in {"Mul", DEQUANTIZE} or not set(node.input) <= known.keys():
        return None
    left, right = (known[each] for each in node.input)
    return left.astype(right.dtype) * right


def in_float32(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float32 wherever it has float16."""
    wide = copied(proto)
    for graph in all_graphs(wide):
        for info in (*graph.input, *graph.output, *graph.value_info):
            if info.type.tensor_type.elem_type == TensorProto.FLOAT16:
                info.type.tensor_type.elem_type = TensorProto.FLOAT
        for tensor in graph.initializer:
            _widen(tensor)
        for node in graph.node:
            for each in node.attribute:
                if each.HasField("t"):
                    _widen(each.t)
                elif each.name in {"to", "output_dtype"} and each.i == TensorProto.FLOAT16:
                    each.i = TensorProto.FLOAT
    return wide


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT16:
        array = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
