"""Dequantize the weights of a model once, not in every run.

Without optimizations ONNX Runtime dequantizes every weight whenever it is read: measured with 1.31.1 on a BERT-base
with int8 weights, that is half of the processor time of a run. Here ONNX Runtime runs these nodes alone, once, and each
run is fed with what they made. The bits of all outputs stay the same, since a weight that is fed and one that a node
makes are multiplied by the same kernel. A stored weight may be multiplied by another one.
"""

from collections import Counter
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
"""Bytes of all weights up to which they are kept in memory."""


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
        self._model, self._profile = model, profile
        self._inputs = {value.name for value in model.proto.graph.input}
        self._needed = self._inputs - {tensor.name for tensor in model.proto.graph.initializer}
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
        if profile is not Profile.SEMANTIC:
            return None
        weights = tuple(_weights(model.proto.graph))
        if not 0 < sum(weight.elements for weight in weights) * FLOAT32.itemsize <= MOST_BYTES:
            return None
        with suppress(QdqError):
            return cls(model, weights, profile)
        return None

    def close(self) -> None:
        """Free the session, its weights and its temporary files."""
        self._weights = {}
        super().close()

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model once; arguments, results and errors as :meth:`qdqtool.running.ort_cpu.Session.run`."""
        if not self._needed <= feeds.keys() <= self._inputs:
            # An ordinary session says what is absent or too much, without the inputs that the model has here only.
            with Session(self._model, self._profile) as ordinary:
                return ordinary.run(feeds, outputs)
        return super().run({**feeds, **self._weights}, outputs)


@dataclass(frozen=True, slots=True, eq=False)
class _Weight:
    """A weight that is stored as codes.

    Attributes:
        position: Position of its DequantizeLinear among the nodes.
        node: The DequantizeLinear.
        stored: Codes, scale and, where there is one, zero point.
        output: What the model says of the type and shape of its values.
    """

    position: int
    node: onnx.NodeProto
    stored: tuple[TensorProto, ...]
    output: onnx.ValueInfoProto

    @property
    def name(self) -> str:
        return self.node.output[0]

    @property
    def elements(self) -> int:
        return element_count(self.stored[0])


def _weights(graph: onnx.GraphProto) -> Iterator[_Weight]:
    """Yield the large weights that their own DequantizeLinear makes of initializers and float32 scales.

    Weights of float16 are left out. ONNX Runtime 1.31.1 runs a float16 node without a float16 kernel in float32, and
    rounds what goes in and out; for some nodes between others it leaves the rounding out, and an input of the model in
    place of a node changes which ones: a SkipLayerNormalization that reads a weight gave other bits.
    """
    made = Counter(
        [name for node in graph.node for name in node.output]
        + [tensor.name for tensor in graph.initializer]
        + [value.name for value in graph.input]
    )
    # What the model returns is read from the node. An initializer that is an input too is only a default.
    returned = {value.name for value in graph.output}
    stored = {tensor.name: tensor for tensor in graph.initializer if made[tensor.name] == 1}
    said = {value.name: value for value in graph.value_info}
    for position, node in enumerate(graph.node):
        if node.op_type != "DequantizeLinear" or node.domain not in DEFAULT_DOMAINS or len(node.output) != 1:
            continue
        read = [stored.get(name) for name in node.input if name]
        found = tuple(tensor for tensor in read if tensor is not None)
        if len(found) < max(len(read), 2) or made[node.output[0]] != 1 or node.output[0] in returned:
            continue
        if _is_float32(node, found[1]) and element_count(found[0]) >= LEAST_ELEMENTS:
            yield _Weight(position, node, found, said.get(node.output[0], onnx.ValueInfoProto(name=node.output[0])))


def _is_float32(node: onnx.NodeProto, scale: TensorProto) -> bool:
    named = any(attribute.name == "output_dtype" and attribute.i for attribute in node.attribute)
    return scale.data_type == TensorProto.FLOAT and not named


def _dequantized(model: Model, weight: _Weight, profile: Profile) -> Array:
    """Run the DequantizeLinear of one weight."""
    # ONNX Runtime compares the values with what the model says of them. In the whole it would not: there they are fed.
    graph = helper.make_graph([weight.node], "weight", [], [weight.output], weight.stored)
    proto = onnx.ModelProto(ir_version=model.proto.ir_version, opset_import=model.proto.opset_import, graph=graph)
    with Session(Model(proto, model.path, model.payloads, model.stored_outside), profile) as session:
        return session.run({})[weight.name]


def _fed(model: Model, weights: Sequence[_Weight], arrays: Mapping[str, Array]) -> Model:
    """Return the model with an input for each weight."""
    left_out = {weight.position for weight in weights}
    nodes = [node for position, node in enumerate(model.proto.graph.node) if position not in left_out]
    read = {name for node in nodes for name in names_read(node)}
    codes = {weight.stored[0].name for weight in weights} - read
    # Codes that are an output of the model stay, too.
    codes -= {value.name for value in model.proto.graph.output}
    proto = copy_model(model.proto, codes)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    for name, array in arrays.items():
        proto.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape))
    return Model(proto, model.path, model.payloads, model.stored_outside, model.missing_data)
