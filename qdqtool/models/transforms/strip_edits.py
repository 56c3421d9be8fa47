"""Build the edits that remove Q/DQ from a model: pairs are bypassed, and stored codes become float constants."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx

from qdqtool.models.graph.edits.edit import (
    AddInitializer,
    AddNode,
    Edit,
    RemoveInitializer,
    RemoveNode,
    RenameOutput,
    SetInput,
)
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode, QdqPair, is_quantize
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.tensors import element_count, pending_tensor, read_array
from qdqtool.models.graph.report import NodeReason
from qdqtool.models.graph.scope import display
from qdqtool.models.ops.support.imposed_bounds import NO_BOUNDS, ImposedBounds, UnknownBoundsError, imposed_bounds
from qdqtool.models.payload import Payload
from qdqtool.models.transforms.restored_bounds import Restored, check_restorable, restore
from qdqtool.numerics.dtypes import FLOAT8E8M0, FLOAT32
from qdqtool.numerics.packing import stored_values

_PACKED_SUFFIX = "_quantized"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedNode:
    """A DequantizeLinear that was removed.

    Attributes:
        node: Label of the node.
        graph: Scope of the node; empty for the main graph.
        kind: ``pair`` for a bypassed Q/DQ pair, ``weight`` for stored codes that became float, ``scale`` for a DQ that
                made scales.
        tensor: The float tensor that the DQ's consumers read now. For ``scale``: the scales, which have no reader now.
    """

    node: str
    graph: str
    kind: str
    tensor: str


@dataclass(slots=True)
class StripEdits:
    """Builds the edits of a strip.

    Attributes:
        index: The index of the model.
        edits: The edits so far.
        removed: The DQ nodes that were removed.
        kept: The Q and DQ nodes that stay.
        restored: The Relu and Clip nodes that replace a Q.
        lost: Q nodes that may have the effect of a Relu or Clip that cannot be restored, with the reason.
    """

    index: ModelIndex
    edits: list[Edit] = field(default_factory=list)
    removed: list[RemovedNode] = field(default_factory=list)
    kept: list[NodeReason] = field(default_factory=list)
    restored: list[Restored] = field(default_factory=list)
    lost: list[NodeReason] = field(default_factory=list)
    _namer: Namer = field(init=False)
    _bounds: dict[QdqNode, ImposedBounds] = field(default_factory=dict)
    _bounded: dict[QdqNode, str] = field(default_factory=dict)
    _gone: set[NodeView] = field(default_factory=set)
    _stands_for: dict[Value, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._namer = Namer(self.index.view)

    def add_all(self) -> None:
        """Remove every DQ that can be removed, then each Q and constant that has no reader left."""
        scales = [entry for entry in self.index.qdq.dequantizers() if self.index.qdq.makes_scales(entry)]
        for entry in self.index.qdq.dequantizers():
            if entry not in scales and self.index.qdq.quantizer_of(entry) is None:
                self._unpack(entry)
        for pairs in self._pairs_by_source():
            for pair in pairs:
                self._bypass(pair.dequantize, pair.quantize)
        self._remove_unread_quantizers()
        self._remove_unread_scales(scales)
        self.edits.extend(self._unread_constants())
        gone = {(node.scope.path, node.key) for node in self._gone}
        self.edits = [
            edit for edit in self.edits if not (isinstance(edit, SetInput) and (edit.scope, edit.node) in gone)
        ]

    def _pairs_by_source(self) -> list[list[QdqPair]]:
        """Return the pairs of each tensor in graph order; a pair comes before the pairs that read its output."""
        groups: dict[Value | None, list[QdqPair]] = {}
        for pair in self.index.qdq.pairs:
            groups.setdefault(pair.quantize.data, []).append(pair)
        # A DQ that makes a graph output is first: it may rename the tensor that replaces the other DQs.
        return [sorted(pairs, key=lambda pair: _is_inner(pair.dequantize)) for pairs in groups.values()]

    def _remove_unread_scales(self, scales: list[QdqNode]) -> None:
        for entry in scales:
            assert entry.output is not None
            if not {use.node for use in entry.uses} <= self._gone:
                self._keep(entry, "another node still reads its scales")
                continue
            self._remove(entry)
            self._note(entry, "scale", entry.output.name)

    def _bypass(self, entry: QdqNode, quantizer: QdqNode) -> None:
        source, output = quantizer.data, entry.output
        if source is None or output is None:
            self._keep(entry, "its Q has no input")
            return
        name = self._bounded_source(quantizer, source, output)
        if name == output.name:
            self._remove(entry)
        else:
            name = self._cast_if_needed(entry, source, output, name)
            self._replace(entry, output, name, source)
        self._note(entry, "pair", name)

    def _bounded_source(self, quantizer: QdqNode, source: Value, output: Value) -> str:
        """Return the input of a Q or, if the range of the Q clips it, the output of the Relu or Clip in its place."""
        # If the DQ made an output of the graph, the Relu or Clip makes this output.
        name = self._stands_for.get(source, source.name)
        bounds = self.bounds_of(quantizer)
        if bounds == NO_BOUNDS:
            return name
        if quantizer not in self._bounded:
            # From now on this tensor must not be renamed to a graph output, because its name is used below.
            self._stands_for[source] = name
            is_result = output.is_output and output.scope is quantizer.node.scope and self._same_type(source, output)
            made = restore(quantizer, bounds, self.index, self._namer, (name, output.name if is_result else None))
            self.edits += made.edits
            self.restored.append(made)
            self._bounded[quantizer] = made.tensor
        return self._bounded[quantizer]

    def bounds_of(self, quantizer: QdqNode) -> ImposedBounds:
        """Return the bounds of the Relu or Clip that replaces a Q."""
        if quantizer not in self._bounds:
            try:
                bounds = imposed_bounds(quantizer, self.index)
                check_restorable(quantizer, bounds, self.index)
            except UnknownBoundsError as reason:
                bounds = NO_BOUNDS
                self.lost.append(quantizer.node.because(str(reason)))
            self._bounds[quantizer] = bounds
        return self._bounds[quantizer]

    def _same_type(self, left: Value, right: Value) -> bool:
        before, after = self.index.types.elem_type(left), self.index.types.elem_type(right)
        return before is None or after is None or before == after

    def _unpack(self, entry: QdqNode) -> None:
        stored = self.index.constants.direct(entry.data) if entry.data is not None else None
        output = entry.output
        if stored is None or output is None:
            self._keep(entry, "its input is neither the output of a QuantizeLinear nor a stored constant")
            return
        tensor = self.float_tensor(entry, stored)
        if tensor is None:
            self._keep(entry, "its scale or zero point is not constant, not finite, or does not fit its input")
            return
        self.edits.append(AddInitializer(entry.node.scope.path, tensor))
        self._replace(entry, output, tensor.name, None)
        self._note(entry, "weight", tensor.name)

    def _note(self, entry: QdqNode, kind: str, tensor: str) -> None:
        graph = display(entry.node.scope.path)
        self.removed.append(RemovedNode(node=entry.node.label, graph=graph, kind=kind, tensor=tensor))

    def _keep(self, entry: QdqNode, reason: str) -> None:
        self.kept.append(entry.node.because(reason))

    def float_tensor(self, entry: QdqNode, stored: onnx.TensorProto) -> onnx.TensorProto | None:
        """Return the constant that replaces stored codes; None if their DQ stays."""
        granularity = entry.granularity
        scale = self.index.constants.array(entry.scale) if entry.scale is not None else None
        zero_point = self.index.constants.array(entry.zero_point) if entry.zero_point is not None else None
        if granularity is None or scale is None or (entry.zero_point is not None and zero_point is None):
            return None
        if scale.shape not in {granularity.scale_shape(tuple(stored.dims)), (1,), ()}:
            return None
        if not np.isfinite(scale.astype(FLOAT32)).all():
            return None
        # A DQ returns the type of its scale, but it cannot return float8e8m0.
        default = FLOAT32 if scale.dtype == FLOAT8E8M0 else scale.dtype
        output_type = entry.node.attribute("output_dtype", 0) or onnx.helper.np_dtype_to_tensor_dtype(default)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(output_type)
        model = self.index.model

        def parts() -> Iterator[Callable[[], bytes]]:
            return stored_values(read_array(model, stored), scale, granularity, zero_point, output_dtype=dtype)

        name = self._namer.tensor(self._float_name(entry))
        nbytes = element_count(stored) * dtype.itemsize
        return pending_tensor(model, name, tuple(stored.dims), output_type, Payload.in_parts(nbytes, parts))

    def _float_name(self, entry: QdqNode) -> str:
        data = entry.data
        assert data is not None
        return data.name.removesuffix(_PACKED_SUFFIX) or data.name

    def _cast_if_needed(self, entry: QdqNode, source: Value, output: Value, name: str) -> str:
        if self._same_type(source, output):
            return name
        after = self.index.types.elem_type(output)
        scope = entry.node.scope.path
        cast = self._namer.tensor(f"{source.name}_cast")
        node = self._namer.node(f"{source.name}_Cast")
        self.edits.append(AddNode(scope, "Cast", (name,), (cast,), node, attributes={"to": after}))
        return cast

    def _replace(self, entry: QdqNode, output: Value, name: str, source: Value | None) -> None:
        """Make all readers of the DQ's output read ``name``, and remove the DQ."""
        scope = entry.node.scope.path
        if output.is_output and source is not None and self._take_output_name(source, output, name):
            pass
        elif output.is_output:
            node = self._namer.node(f"{output.name}_Identity")
            self.edits.append(AddNode(scope, "Identity", (name,), (output.name,), node))
        else:
            for use in output.uses:
                self.edits.append(SetInput(use.node.scope.path, use.node.key, use.index, name))
            self._stands_for[output] = name
        self._remove(entry)

    def _remove(self, entry: QdqNode) -> None:
        self.edits.append(RemoveNode(entry.node.scope.path, entry.node.key))
        self._gone.add(entry.node)

    def _take_output_name(self, source: Value, output: Value, name: str) -> bool:
        """Let the producer of ``source`` write ``output`` without an Identity, and return whether that is possible."""
        producer = source.producer
        free = not source.is_output and source.scope is output.scope and name == source.name
        if producer is None or not free or self.index.qdq.get(producer) is not None or source in self._stands_for:
            return False
        position = list(producer.proto.output).index(source.name)
        self.edits.append(RenameOutput(source.scope.path, producer.key, position, output.name))
        self._stands_for[source] = output.name
        for use in source.uses:
            if self.index.qdq.get(use.node) is None or use.index != 0:
                self.edits.append(SetInput(use.node.scope.path, use.node.key, use.index, output.name))
        return True

    def _remove_unread_quantizers(self) -> None:
        for entry in self.index.qdq.quantizers():
            output = entry.output
            readers = {use.node for use in entry.uses}
            if output is None or output.is_output or not readers or not readers <= self._gone:
                self._keep(entry, "its codes have no reader, or a reader other than DequantizeLinear")
                if entry.data in self._stands_for:
                    assert entry.data is not None
                    name = self._stands_for[entry.data]
                    self.edits.append(SetInput(entry.node.scope.path, entry.node.key, 0, name))
                continue
            self._remove(entry)

    def _unread_constants(self) -> Iterator[Edit]:
        for value, count in Counter(self._parameters_of_gone()).items():
            if count < len(value.uses) or value.is_output:
                continue
            if value.initializer is not None:
                yield RemoveInitializer(value.scope.path, value.name)
            elif value.producer is not None:
                yield RemoveNode(value.scope.path, value.producer.key)

    def _parameters_of_gone(self) -> Iterator[Value]:
        for node in self._gone:
            # The readers of the removed DQ still read the float constant that the Q read.
            first = 1 if is_quantize(node) else 0
            for index in range(first, len(node.proto.input)):
                value = node.input(index)
                if value is not None and self.index.constants.direct(value) is not None:
                    yield value


def _is_inner(entry: QdqNode) -> bool:
    return entry.output is None or not entry.output.is_output
