"""Evaluate every Q and DQ of a model in qdqtool, on the values that the node had in the reference session."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx

from qdqtool.accuracy.checking.report import DID_NOT_RUN, NodeDifference, QdqCount
from qdqtool.errors import ArgumentError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN, display
from qdqtool.models.running.ort_cpu_faults import QuantizeCall, expected_codes
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_nodes import granularity_of, output_type_of, precision_of
from qdqtool.models.running.own_support import plan_split
from qdqtool.models.transforms.taps import tap_tensors
from qdqtool.numerics import formats
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import expand
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.rounding import code_steps

Read = Callable[[Value], Array | None]
"""Reads an input of a node; returns None if it could not be observed."""


@dataclass(slots=True)
class NodeCheck:
    """The findings at one Q or DQ over all samples.

    Attributes:
        entry: The node.
        elements: Elements compared.
        different: Elements that differ in any bit (NaN equals NaN).
        max_steps: Largest difference: in codes for a Q, in multiples of the scale for a DQ.
        example: The first difference, in words.
        pair_different: Elements of a DQ that differ from the result with the constants of its Q.
        pair_example: The first such element, in words.
        faults: Documented faults of the reference that occurred, with the number of elements.
        problem: Why nothing was compared.
        own: Why qdqtool evaluated the node; empty if ONNX Runtime did. Then only a DQ is compared: with the scale
            and zero point of its Q.
    """

    entry: QdqNode
    elements: int = 0
    different: int = 0
    max_steps: float = 0.0
    example: str = ""
    pair_different: int = 0
    pair_example: str = ""
    faults: Counter[str] = field(default_factory=Counter)
    problem: str = DID_NOT_RUN
    own: str = ""

    @property
    def was_checked(self) -> bool:
        """Whether anything was compared."""
        return bool(self.elements or self.different)

    def difference(self) -> NodeDifference:
        """Return the entry of the report."""
        node = self.entry.node
        return NodeDifference(
            node=node.label,
            op_type=node.op_type,
            graph=display(node.scope.path),
            different=self.different,
            elements=self.elements,
            max_steps=self.max_steps,
            example=self.example,
        )


def qdq_count(checks: Iterable[NodeCheck]) -> QdqCount:
    """Count the Q and DQ nodes that ONNX Runtime and qdqtool evaluated."""
    every = list(checks)
    ran = [check for check in every if check.was_checked]
    own = sum(bool(check.own) for check in ran)
    return QdqCount(total=len(every), checked=len(ran) - own, own=own)


def inputs_of(entry: QdqNode) -> Iterator[Value]:
    """Yield the tensors that a Q or DQ reads."""
    yield from (value for value in (entry.data, entry.scale, entry.zero_point) if value is not None)


def compare(check: NodeCheck, actual: Array, read: Read, quantizer: QdqNode | None) -> None:
    """Compare a result of a node with the result of qdqtool; for a DQ, also with the result for the scale of its Q.

    Args:
        check: The findings to add to.
        actual: The result of the reference.
        read: Reads the node's inputs as the reference had them.
        quantizer: The Q that a DQ reads; None for others.
    """
    entry = check.entry
    arrays = [read(value) for value in inputs_of(entry)]
    if any(array is None for array in arrays):
        check.problem = "one of its inputs could not be observed"
        return
    try:
        if check.own:
            _count_own(check, actual, read, quantizer)
        elif entry.is_quantize:
            _compare_quantize(check, actual, read)
        else:
            _compare_dequantize(check, actual, read, quantizer)
    except ArgumentError as error:
        check.elements += actual.size
        check.different += actual.size
        check.example = check.example or f"qdqtool refuses what ONNX Runtime accepts: {error.message}"


def _compare_quantize(check: NodeCheck, actual: Array, read: Read) -> None:
    entry = check.entry
    fmt = format_of(entry)
    x, scale, zero_point = _parameters(entry, read)
    if fmt is None or fmt.first_opset.quantize is None:
        check.problem = f"qdqtool cannot evaluate its quantized type {entry.quantized_type}"
        return
    call = QuantizeCall(
        x=x,
        scale=scale,
        zero_point=zero_point,
        fmt=fmt,
        granularity=granularity_of(entry, scale),
        saturate=bool(entry.node.attribute("saturate", 1)),
        precision=precision_of(entry),
    )
    expected = expected_codes(call)
    check.faults.update(expected.faults)
    # ONNX Runtime cannot return types that NumPy lacks, so taps widen them.
    wrong = differing(expected.codes.astype(actual.dtype), actual)
    if expected.undefined is not None:
        wrong &= ~expected.undefined
    _count(check, wrong, (expected.codes.astype(actual.dtype), actual), lambda: code_steps(expected.codes, actual, fmt))


def _compare_dequantize(check: NodeCheck, actual: Array, read: Read, quantizer: QdqNode | None) -> None:
    q, scale, zero_point = _parameters(check.entry, read)
    granularity = granularity_of(check.entry, scale)
    made = output_type_of(check.entry, scale)
    expected = dequantize(q, scale, granularity, zero_point, output_dtype=made).astype(actual.dtype)

    def distance() -> Array:
        step = expand(scale, q.shape, granularity).astype(np.float64)
        with np.errstate(all="ignore"):
            return np.abs(expected.astype(np.float64) - actual.astype(np.float64)) / step

    _count(check, differing(expected, actual), (expected, actual), distance)
    if quantizer is not None:
        _compare_pair(check, actual, q, quantizer, read)


def _count_own(check: NodeCheck, actual: Array, read: Read, quantizer: QdqNode | None) -> None:
    check.elements += actual.size
    if quantizer is not None and check.entry.data is not None and (q := read(check.entry.data)) is not None:
        _compare_pair(check, actual, q, quantizer, read)


def _compare_pair(check: NodeCheck, actual: Array, q: Array, quantizer: QdqNode, read: Read) -> None:
    """Compare a DQ with its Q: it undoes the Q if the Q's own constants dequantize the codes to the same bits."""
    scale = read(quantizer.scale) if quantizer.scale is not None else None
    zero_point = read(quantizer.zero_point) if quantizer.zero_point is not None else None
    if scale is None:
        return
    own_scale = read(check.entry.scale) if check.entry.scale is not None else scale
    made = output_type_of(check.entry, scale if own_scale is None else own_scale)
    undone = dequantize(q, scale, granularity_of(quantizer, scale), zero_point, output_dtype=made).astype(actual.dtype)
    wrong = differing(undone, actual)
    if wrong.any() and not check.pair_example:
        index = largest(wrong)
        check.pair_example = (
            f"at {list(index)} it gives {actual[index]!s}, the Q's own constants give {undone[index]!s}"
        )
    check.pair_different += int(np.count_nonzero(wrong))


def _parameters(entry: QdqNode, read: Read) -> tuple[Array, Array, Array | None]:
    data = read(entry.data) if entry.data is not None else None
    scale = read(entry.scale) if entry.scale is not None else None
    if data is None or scale is None:
        raise ArgumentError("data or scale is absent")
    return data, scale, read(entry.zero_point) if entry.zero_point is not None else None


def _count(check: NodeCheck, wrong: Array, values: tuple[Array, Array], distance: Callable[[], Array]) -> None:
    check.elements += wrong.size
    count = int(np.count_nonzero(wrong))
    if not count:
        return
    check.different += count
    steps = distance()[wrong]
    check.max_steps = max(check.max_steps, float(np.max(steps, initial=0.0, where=np.isfinite(steps))))
    if not check.example:
        index = largest(wrong)
        expected, actual = values
        check.example = (
            f"at {list(index)} the reference has {actual[index]!s}, and qdqtool computes {expected[index]!s}"
        )


def differing(left: Array, right: Array) -> Array:
    """Return where two arrays of one type differ in any bit; NaN equals NaN, and -0 does not equal 0."""
    bits = np.dtype(f"u{left.dtype.itemsize}")
    unequal = np.ascontiguousarray(left).view(bits) != np.ascontiguousarray(right).view(bits)
    if left.dtype.kind in "iub" or not unequal.any():
        return np.asarray(unequal)
    return np.asarray(unequal & ~(np.isnan(left) & np.isnan(right)))


def largest(array: Array) -> tuple[int, ...]:
    """Return the index of the first largest element; for booleans, the index of the first true element."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(array)), array.shape))


def format_of(entry: QdqNode) -> NumberFormat | None:
    """Return the quantized format of a node, or None if it is unknown."""
    return formats.by_onnx_type(entry.quantized_type or 0)


def described(entry: QdqNode) -> str:
    """Return the operator, label and scope of a Q or DQ, in words."""
    path = entry.node.scope.path
    return f"{entry.node.op_type} '{entry.node.label}'{f' in {display(path)}' if path else ''}"


LARGEST_MODEL = (1 << 31) - (1 << 20)
"""Largest number of bytes of tensors in one model: protobuf serializes less than 2 GiB; 1 MiB is for the rest."""


class ConstantNodes:
    """The Q and DQ nodes with constant results: their inputs are constants, or codes that another such Q makes."""

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

        Results in types that NumPy lacks are widened; a result is None if the constants are too large for one model in
        memory.
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
        # A node that gets its attributes from the call of its local function cannot run alone.
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
