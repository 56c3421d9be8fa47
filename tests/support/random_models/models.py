"""Strategies of whole models, and inputs for them."""

from collections.abc import Iterable

import numpy as np
import onnx
from hypothesis import note
from hypothesis import strategies as st
from onnx import TensorProto, helper

from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model
from support.random_models.growing import BATCH, Growing, Tensor
from support.random_models.layers import grow_any
from support.random_models.quantizing import Quantizing

OPSETS = range(13, 24)

IR_VERSIONS = {19: 9, 20: 9, 21: 10, 22: 10, 23: 11}
"""The IR version that an opset was released with, where it is above 8."""

SHAPES = ((BATCH, 4, 4, 4), (BATCH, 4), (BATCH, 3, 4))

MOST_LAYERS = 7

Feeds = dict[str, np.ndarray]


@st.composite
def float_models(draw: st.DrawFn, *, opsets: Iterable[int] = OPSETS, float_types: Iterable[int] | None = None) -> Model:
    """Draw a model without Q/DQ.

    Args:
        draw: Hypothesis's choices.
        opsets: Versions of the default domain to choose from.
        float_types: Element types of inputs to choose from; None for float32 and float16. Layers cast to others.
    """
    return _model(_grown(Growing, draw, opsets, float_types))


@st.composite
def quantized_models(
    draw: st.DrawFn, *, opsets: Iterable[int] = OPSETS, float_types: Iterable[int] | None = None
) -> Model:
    """Draw a model of the same layers with Q/DQ in front of some of what they read.

    Some codes are outputs of the graph, some scales are computed or inputs, some constants are shared, some weights are
    stored as codes, and some DQs make an output.
    """
    net = _grown(Quantizing, draw, opsets, float_types)
    assert isinstance(net, Quantizing)
    return _model(net, net.returned)


def _grown(kind: type[Growing], draw: st.DrawFn, opsets: Iterable[int], float_types: Iterable[int] | None) -> Growing:
    opset = draw(st.sampled_from(_weighted([*opsets])))
    # float16 scales came with opset 19.
    known = (TensorProto.FLOAT, TensorProto.FLOAT16) if opset >= 19 or kind is Growing else (TensorProto.FLOAT,)
    net = kind(draw, opset, draw(st.sampled_from([*(float_types or known)])))
    for shape in draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2)):
        net.tensors.append(net.add_input(shape, net.float_type))
    for _ in range(MOST_LAYERS):
        draw(_layer(net))
    if net.nodes == []:
        grow_any(net, 0)
    return net


@st.composite
def _layer(draw: st.DrawFn, net: Growing) -> None:
    """Add a layer or none: one draw, which Hypothesis can leave out as a whole."""
    number = draw(st.integers(0, 999))
    if number:
        grow_any(net, number)


def _weighted(opsets: list[int]) -> list[int]:
    """Return the opsets with the latest first and more often: most formats came with 21."""
    return [version for version in opsets if version >= 21] * 2 + opsets


def _model(net: Growing, codes: Iterable[Tensor] = ()) -> Model:
    outputs = [*_outputs(net), *codes]
    infos = [net.info(each) for each in outputs]
    graph = helper.make_graph(net.nodes, "random", net.inputs, infos, net.initializers)
    imports = [helper.make_opsetid("", net.opset)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSIONS.get(net.opset, 8))
    if net.chance(4):
        proto = onnx.shape_inference.infer_shapes(proto)
    note(onnx.printer.to_text(proto))
    return Model(proto)


def _outputs(net: Growing) -> list[Tensor]:
    """Return the outputs: what nothing reads and some others, a few of them behind a pair."""
    inputs = {info.name for info in net.inputs}
    made = [tensor for tensor in net.tensors if tensor.name not in inputs]
    if not made:
        made = [Tensor(net.node("Identity", [tensor.name]), tensor.shape, tensor.type) for tensor in net.tensors[:1]]
    read = set(read_by(net.nodes))
    chosen = [tensor for tensor in made if tensor.name not in read or net.chance(6)]
    outputs: dict[str, Tensor] = {}
    for tensor in chosen or made[-1:]:
        name, elem_type = net.read(tensor) if net.chance(3) else tensor.name, tensor.type
        if elem_type == TensorProto.BFLOAT16:  # ONNX Runtime's Python does not return it
            name, elem_type = net.node("Cast", [name], to=TensorProto.FLOAT), TensorProto.FLOAT
        outputs[name] = Tensor(name, tensor.shape, elem_type)
    return [*outputs.values()]


def read_by(nodes: Iterable[onnx.NodeProto]) -> Iterable[str]:
    """Yield what nodes read, with those of their bodies."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from read_by(attribute.g.node)


def drawn_feeds(model: Model, seed: int = 0) -> Feeds:
    """Return inputs of a drawn model; the batch is 2."""
    rng = np.random.default_rng(seed)
    return {info.name: _feed(info, rng) for info in model.proto.graph.input}


def _feed(info: onnx.ValueInfoProto, rng: np.random.Generator) -> np.ndarray:
    kind = info.type.tensor_type
    shape = [dim.dim_value or BATCH for dim in kind.shape.dim]
    match kind.elem_type:
        case TensorProto.BOOL:
            return np.array(rng.integers(2) == 1)
        case TensorProto.INT64:
            return rng.integers(0, 2, shape)
    values = rng.standard_normal(shape) if shape else np.array(0.05)
    return values.astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))


def whole(model: Model) -> onnx.ModelProto:
    """Return a model with the bytes of all its weights in it, as it would be saved."""
    proto = inlined(model)
    assert proto is not None
    return proto
