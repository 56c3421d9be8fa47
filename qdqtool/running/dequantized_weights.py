"""Dequantize the weights of a model once, not in every run.

Without optimizations ONNX Runtime dequantizes every weight whenever it is read: measured with 1.31.1 on a BERT-base
with int8 weights, that is half of the processor time of a run. Here ONNX Runtime runs these nodes alone, once, and each
run is fed with what they made. The bits of all outputs stay the same, since a weight that is fed and one that a node
makes are multiplied by the same kernel. A stored weight may be multiplied by another one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper

from qdqtool.errors import QdqError
from qdqtool.graph.index.view import DEFAULT_DOMAINS
from qdqtool.graph.io.copying import copy_model
from qdqtool.graph.io.tensors import element_count
from qdqtool.graph.model import Model
from qdqtool.numerics.cores import side_by_side
from qdqtool.numerics.dtypes import FLOAT32, Array
from qdqtool.running.ort_cpu import Profile, Session
from qdqtool.running.own_stages import names_read

LEAST_ELEMENTS = 1 << 14
"""Smaller weights stay as they are: feeding an array takes a run about as long as dequantizing so many elements."""

MOST_BYTES = 1 << 30
"""Bytes of all weights in float32 up to which they are kept in memory."""

_FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16})
"""Types of scales whose products NumPy has."""


class DequantizedSession(Session):
    """A session whose weights were dequantized when it was opened.

    Args:
        model: The model, as :class:`qdqtool.running.ort_cpu.Session` takes it.
        weights: Its weights.
        profile: How to run it.

    Raises:
        CapabilityError: ONNX Runtime is not installed, or cannot run an operator, type or opset of the model.
        ModelError: ONNX Runtime refuses the model as invalid.
        RunError: A weight cannot be dequantized.
    """

    def __init__(self, model: Model, weights: "Sequence[_Weight]", profile: Profile) -> None:
        made = side_by_side(lambda weight: _dequantized(model, weight, profile), weights)
        self._weights = {weight.name: array for weight, array in zip(weights, made, strict=True)}
        super().__init__(_fed(model, weights, self._weights), profile)

    @classmethod
    def of(cls, model: Model, profile: Profile) -> "DequantizedSession | None":
        """Open a model.

        Args:
            model: The model.
            profile: How to run it.

        Returns:
            None where ONNX Runtime dequantizes weights ahead by itself, where the model has no weights as codes that
            are worth it, or more than memory should hold, and where it cannot be opened so: an ordinary session then
            says why.
        """
        if profile not in {Profile.SEMANTIC, Profile.UNPACKED}:
            return None
        weights = tuple(_weights(model.proto.graph))
        size = sum(weight.elements for weight in weights) * FLOAT32.itemsize
        if not 0 < size <= MOST_BYTES:
            return None
        with suppress(QdqError):
            return cls(model, weights, profile)
        return None

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model once; arguments, results and errors as :meth:`qdqtool.running.ort_cpu.Session.run`."""
        return super().run({**feeds, **self._weights}, outputs)


@dataclass(frozen=True, slots=True, eq=False)
class _Weight:
    """A weight that is stored as codes.

    Attributes:
        node: Its DequantizeLinear.
        stored: Codes, scale and zero point.
    """

    node: onnx.NodeProto
    stored: tuple[TensorProto, ...]

    @property
    def name(self) -> str:
        return self.node.output[0]

    @property
    def elements(self) -> int:
        return element_count(self.stored[0])


def _weights(graph: onnx.GraphProto) -> Iterator[_Weight]:
    """Yield the large weights that nothing but their own DequantizeLinear reads."""
    # An initializer that is an input too is only a default.
    outside = {value.name for value in (*graph.input, *graph.output)}
    stored = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in outside}
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or node.domain not in DEFAULT_DOMAINS or set(node.output) & outside:
            continue
        read = tuple(stored[name] for name in node.input if name in stored)
        if len(read) != len([name for name in node.input if name]) or len(read) < 2 or len(node.output) != 1:
            continue
        if read[1].data_type in _FLOATS and not _has_output_type(node) and element_count(read[0]) >= LEAST_ELEMENTS:
            yield _Weight(node, read)


def _has_output_type(node: onnx.NodeProto) -> bool:
    return any(attribute.name == "output_dtype" and attribute.i for attribute in node.attribute)


def _dequantized(model: Model, weight: _Weight, profile: Profile) -> Array:
    """Run the DequantizeLinear of one weight."""
    output = onnx.ValueInfoProto(name=weight.name)
    graph = helper.make_graph([weight.node], "weight", [], [output], weight.stored)
    proto = onnx.ModelProto(ir_version=model.proto.ir_version, opset_import=model.proto.opset_import, graph=graph)
    with Session(Model(proto, model.path, model.payloads, model.stored_outside), profile) as session:
        return session.run({})[weight.name]


def _fed(model: Model, weights: Sequence[_Weight], arrays: Mapping[str, Array]) -> Model:
    """Return the model with an input for each weight."""
    made = {weight.name for weight in weights}
    nodes = [node for node in model.proto.graph.node if not made.intersection(node.output)]
    read = {name for node in nodes for name in names_read(node)}
    codes = {weight.stored[0].name for weight in weights} - read
    proto = copy_model(model.proto, codes)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    for name, array in arrays.items():
        elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        proto.graph.input.append(helper.make_tensor_value_info(name, elem_type, array.shape))
    return Model(proto, model.path, model.payloads, model.stored_outside, model.missing_data)
