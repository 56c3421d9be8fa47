"""Plans for drawn float models, and the same plans carried out by hand."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model
from support.random_models import brute
from support.random_models.quantizing import CODES, Codes

NAMES = {codes.type: TensorProto.DataType.Name(codes.type).lower() for codes in CODES}

MOST_ENTRIES = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor and the constants of its pair."""

    tensor: str
    type: int
    codes: Codes
    scale: np.ndarray
    zero_point: np.ndarray | None
    attributes: dict[str, int]

    def as_plan(self) -> dict[str, Any]:
        """Return the entry as a plan file has it."""
        told = {"tensor": self.tensor, "format": NAMES[self.codes.type], "scale": self.scale.tolist()} | self.attributes
        return told if self.zero_point is None else told | {"zero_point": self.zero_point.tolist()}


@st.composite
def plans(draw: st.DrawFn, model: Model, *, raised: bool = True) -> list[Entry]:
    """Draw a plan for some tensors of a model; empty where no tensor can have a pair.

    Args:
        draw: Hypothesis's choices.
        model: A float model.
        raised: Whether formats may need a later opset than the model has.
    """
    opset = model.default_opset()
    tensors = quantizable(model.proto, {TensorProto.FLOAT} if opset < 19 and not raised else None)
    if not tensors:
        return []
    names = draw(st.lists(st.sampled_from(sorted(tensors)), min_size=1, max_size=MOST_ENTRIES, unique=True))
    return [draw(_entry(name, *tensors[name], 99 if raised else opset)) for name in names]


def quantizable(proto: onnx.ModelProto, types: set[int] | None = None) -> dict[str, tuple[int, tuple[int, ...] | None]]:
    """The type and shape of every float tensor that something reads; 0 for an extent that is not known."""
    used = brute.readers(proto).keys() | brute.returned(proto)
    found: dict[str, tuple[int, tuple[int, ...] | None]] = {}
    for graph in brute.all_graphs(onnx.shape_inference.infer_shapes(proto)):
        for info in (*graph.input, *graph.value_info, *graph.output):
            found[info.name] = (info.type.tensor_type.elem_type, tuple(dim.dim_value for dim in brute.dims(info)))
        found |= {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer}
    # Factors of a Resize are no data.
    used -= {node.input[2] for node in brute.all_nodes(proto) if node.op_type == "Resize"}
    types = types or {TensorProto.FLOAT, TensorProto.FLOAT16}
    return {name: (kind, shape) for name, (kind, shape) in found.items() if kind in types and name in used}


@st.composite
def _entry(draw: st.DrawFn, name: str, elem_type: int, shape: tuple[int, ...], opset: int) -> Entry:
    codes = draw(st.sampled_from([each for each in CODES if each.opset <= opset]))
    known = [axis for axis, extent in enumerate(shape) if extent > 1]
    axis = draw(st.sampled_from([None, None, *known]))
    scale_shape: tuple[int, ...] = () if axis is None else (shape[axis],)
    attributes = {} if axis is None else {"axis": axis}
    blocks = axis is not None and opset >= 21 and all(shape) and shape[axis] % 2 == 0
    # ONNX Runtime takes the one block of a vector for a per-tensor scale, and refuses block_size beside it (QA206).
    blocks = blocks and shape != (2,)
    if blocks and draw(st.integers(0, 3)) == 3:
        scale_shape = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
        attributes["block_size"] = 2
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    # No range ends at a number of one digit, which strip would take for the bound of a Clip.
    scale = 0.0171 * np.exp2(rng.integers(0, 3, scale_shape)) * (16 if codes.type in FEW else 1)
    zero_point = None
    if codes.bounds is not None and draw(st.booleans()):
        zero_point = np.full(scale_shape, draw(st.sampled_from([codes.bounds[1] // 2, codes.bounds[1] // 3])))
    elif codes.bounds is not None and codes.bounds[0] == 0:  # at the lowest code, strip puts a Relu there
        zero_point = np.full(scale_shape, codes.bounds[1] // 2)
    dtype = helper.tensor_dtype_to_np_dtype(elem_type)
    return Entry(name, elem_type, codes, scale.astype(dtype).astype(np.float64), zero_point, attributes)


FEW = {TensorProto.INT4, TensorProto.UINT4}


def inserted(proto: onnx.ModelProto, entries: list[Entry]) -> onnx.ModelProto:
    """The same model with a Q and a DQ, whose constants are initializers, behind each tensor."""
    copy = brute.copied(proto)
    for entry in entries:
        _insert(copy, entry)
    return copy


def _insert(proto: onnx.ModelProto, entry: Entry) -> None:
    graph = _home(proto, entry.tensor)
    constants = [f"{entry.tensor}~s", f"{entry.tensor}~z"]
    zero = np.zeros(entry.scale.shape) if entry.zero_point is None else entry.zero_point
    proto.graph.initializer.append(make_tensor(constants[0], entry.scale, entry.type))
    proto.graph.initializer.append(make_tensor(constants[1], zero, entry.codes.type))
    source, codes, result = entry.tensor, f"{entry.tensor}~q", f"{entry.tensor}~dq"
    makers = [index for index, node in enumerate(graph.node) if entry.tensor in node.output]
    if entry.tensor in {info.name for info in graph.output}:
        source, result = f"{entry.tensor}~float", entry.tensor
        outputs = graph.node[makers[0]].output
        outputs[list(outputs).index(entry.tensor)] = source
    else:
        for node in brute.all_nodes(proto):
            node.input[:] = [result if name == entry.tensor else name for name in node.input]
    place = makers[0] + 1 if makers else 0
    pair = [
        helper.make_node(brute.QUANTIZE, [source, *constants], [codes], **entry.attributes),
        helper.make_node(brute.DEQUANTIZE, [codes, *constants], [result], **entry.attributes),
    ]
    nodes = [*graph.node[:place], *pair, *graph.node[place:]]
    del graph.node[:]
    graph.node.extend(nodes)


def _home(proto: onnx.ModelProto, tensor: str) -> onnx.GraphProto:
    """The graph that makes a tensor."""
    for graph in brute.all_graphs(proto):
        given = [*graph.initializer, *graph.input]
        if any(tensor in node.output for node in graph.node) or any(each.name == tensor for each in given):
            return graph
    raise LookupError(tensor)
