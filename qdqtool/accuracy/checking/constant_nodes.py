"""Run each Q and DQ node of constants by itself, so that the weights are never all in memory at once."""

from collections.abc import Iterable, Iterator

import onnx

from qdqtool.accuracy.checking.qdq_reference import format_of, inputs_of
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.models.transforms.taps import tap_tensors
from qdqtool.numerics.dtypes import Array

LARGEST_MODEL = (1 << 31) - (1 << 20)
"""Largest number of bytes of tensors in one model: protobuf serializes less than 2 GiB, with 1 MiB for the rest."""


class ConstantNodes:
    """The Q and DQ nodes with the same result in every run: all inputs are constant, or codes of such a Q.

    Args:
        index: The model.
        entries: Its Q and DQ nodes.
    """

    def __init__(self, index: ModelIndex, entries: Iterable[QdqNode]) -> None:
        self._index = index
        self._alone = [entry for entry in entries if self._is_fixed(entry, inputs_of(entry))]
        self._behind: dict[QdqNode, list[QdqNode]] = {}
        for quantizer in [entry for entry in self._alone if entry.is_quantize and format_of(entry) is not None]:
            readers = index.qdq.readers(quantizer)
            self._behind[quantizer] = [entry for entry in readers if self._is_fixed(entry, [*inputs_of(entry)][1:])]
        self._all = {*self._alone, *(entry for readers in self._behind.values() for entry in readers)}

    def __contains__(self, entry: QdqNode) -> bool:
        return entry in self._all

    def results(self) -> Iterator[tuple[QdqNode, dict[Value, Array], Array | None]]:
        """Yield each node with its inputs by tensor and its result in the reference session, one at a time.

        Results in types that NumPy lacks are widened; a result is None where the constants are too large for one model
        in memory.
        """
        for entry in self._alone:
            inputs = self._constants(inputs_of(entry))
            result = self._run(entry, inputs)
            yield entry, inputs, result
            fmt = format_of(entry)
            if result is None or fmt is None or entry.output is None:
                continue
            for reader in self._behind.get(entry, ()):
                known = {entry.output: result.astype(fmt.dtype), **self._constants([*inputs_of(reader)][1:])}
                yield reader, {**known, **self._constants(inputs_of(entry))}, self._run(reader, known)

    def _is_fixed(self, entry: QdqNode, values: Iterable[Value]) -> bool:
        # A node whose attributes the call of its local function gives cannot stand by itself.
        if entry.node.is_parametric or entry.output is None or entry.data is None:
            return False
        return all(self._index.is_constant(value) for value in values)

    def _constants(self, values: Iterable[Value]) -> dict[Value, Array]:
        found = ((value, self._index.constant(value)) for value in values)
        return {value: array for value, array in found if array is not None}

    def _run(self, entry: QdqNode, inputs: dict[Value, Array]) -> Array | None:
        if sum(array.nbytes for array in inputs.values()) > LARGEST_MODEL:
            return None
        alone = ModelIndex.of(_single_node_model(self._index, entry, inputs))
        made = alone.view.main.values[entry.node.proto.output[0]]
        elem_type = self._index.elem_type(entry.output) if entry.output is not None else None
        tapped = tap_tensors(alone.view, [made], lambda _: elem_type)
        name = tapped.report.places[MAIN, made.name][0].output
        with open_session(tapped.model, plan_split(alone)) as session:
            return session.run({}, [name])[name]


def _single_node_model(index: ModelIndex, entry: QdqNode, inputs: dict[Value, Array]) -> Model:
    node = entry.node
    tensors = [
        make_tensor(value.name, array, onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
        for value, array in inputs.items()
    ]
    outputs = [onnx.ValueInfoProto(name=node.proto.output[0])]
    graph = onnx.helper.make_graph([node.proto], "node", [], outputs, tensors)
    opsets = [onnx.helper.make_opsetid("", node.scope.opset)]
    if node.domain:
        opsets.append(onnx.helper.make_opsetid(node.domain, 1))
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=index.model.proto.ir_version)
    return Model(proto)
