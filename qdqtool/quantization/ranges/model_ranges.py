"""Read ranges from the Q/DQ pairs of a model, and carry them to tensors without a pair.

The names are those of the float model that ``qdqtool strip`` writes: another tool needs that model and the ranges.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import display
from qdqtool.models.targets import type_name
from qdqtool.models.transforms.strip import strip_from
from qdqtool.numerics import formats
from qdqtool.quantization.ranges.encodings import Encodings, symmetric_range, tensor_range
from qdqtool.quantization.ranges.types import UNSEEN, TensorRange

ASYMMETRIC = "asymmetric in the model: range made symmetric"
PER_CHANNEL = "with several scales in one pair: largest scale used"
OTHER_FORMAT = "not int8 in the model: range used for int8"
SEVERAL = "with pairs of different ranges: largest range used"


@dataclass(frozen=True, slots=True, eq=False)
class ModelRanges:
    """The ranges of a quantized model.

    Attributes:
        found: The ranges of all float tensors of the stripped model, in its order; a tensor without a range has no
            values. The remarks state what one int8 scale for each tensor cannot express.
        carried: The tensors that have no pair, and whose range follows from another tensor or from their operator.
        kept: Number of Q and DQ nodes that cannot be stripped.
    """

    found: Encodings
    carried: tuple[str, ...]
    kept: int


def model_ranges(source: Model) -> ModelRanges:
    """Return the ranges that the pairs of a model define, with the names of the stripped model.

    Raises:
        UsageError: The model has no pairs of activations, or the scale of one is not finite.
    """
    index, stripped = ModelIndex.of(source), strip_from(source)
    dequantizers = {(entry.node.label, display(entry.node.scope.path)): entry for entry in index.qdq.dequantizers()}
    float_index = ModelIndex.of(stripped.model)
    values = activations(float_index)
    names, given, remarks = {value.name for value in values}, dict[str, TensorRange](), dict[str, str]()
    for removed in stripped.report.removed:
        entry = dequantizers[removed.node, removed.graph]
        quantizer = index.qdq.quantizer_of(entry)
        # The tensor before a pair takes the name of the graph output that the pair makes.
        name = removed.tensor if removed.tensor in names or entry.output is None else entry.output.name
        read = _read(name, quantizer, index) if name in names and quantizer is not None else None
        if read is None:
            continue
        found, remark = read
        earlier = given.setdefault(name, found)
        if earlier != found:
            given[name], remark = max(earlier, found, key=lambda each: each.amax), SEVERAL
        if remark:
            remarks[name] = remark
    if not given:
        raise UsageError("the model has no Q/DQ pairs of activations, whose scales could be written")
    known = {value: given[value.name] for value in values if value.name in given}
    _carry(float_index, known)
    return ModelRanges(
        Encodings({value.name: known.get(value, UNSEEN) for value in values}, remarks=remarks),
        tuple(value.name for value in values if value in known and value.name not in given),
        len(stripped.report.kept),
    )


def activations(index: ModelIndex) -> list[Value]:
    """Return every float tensor that is not constant, in the order of the model."""
    return [value for value in index.view.values() if _is_activation(value, index)]


def _is_activation(value: Value, index: ModelIndex) -> bool:
    return bool(value.name) and index.is_float(value) and not index.constants.is_constant(value)


def _read(name: str, entry: QdqNode, index: ModelIndex) -> tuple[TensorRange, str] | None:
    """Return the range that the codes of a Q cover, and the remark on it; None if its scale is not constant."""
    scale = index.constant(entry.scale) if entry.scale is not None else None
    zero = index.constant(entry.zero_point) if entry.zero_point is not None else np.zeros(())
    if scale is None or zero is None or not scale.size or entry.quantized_type is None:
        return None
    fmt, scales, zeros = formats.get(type_name(entry.quantized_type)), scale.astype(np.float64), zero.astype(np.float64)
    middle = (fmt.low + fmt.high + 1) / 2 if fmt.kind == "integer" else 0.0
    remark = PER_CHANNEL if scale.size > 1 else ""
    if np.any(zeros != middle):
        ends = [(end - zeros) * scales for end in (fmt.low, fmt.high)]
        return tensor_range(name, float(np.min(ends)), float(np.max(ends))), ASYMMETRIC
    if fmt.bits != 8 or fmt.kind != "integer":
        high = (fmt.high - middle) * float(scales.max())
        return tensor_range(name, -high, high), OTHER_FORMAT
    return symmetric_range(name, float(scales.max())), remark


def _carry(index: ModelIndex, known: dict[Value, TensorRange]) -> None:
    """Add the ranges that follow from the known ones: first those behind them, then those before any of them."""
    nodes = list(index.view.nodes())
    for node in nodes:
        found = _of_output(node, known)
        if found is not None:
            known |= {
                output: known.get(output, found) for output in node.present_outputs if _is_activation(output, index)
            }
    for node in reversed(nodes):
        for value, result in _same_before(node, index):
            # Another reader of the tensor may need the values beyond this range.
            if result in known and _is_activation(value, index) and len(value.uses) == 1 and not value.is_output:
                known.setdefault(value, known[result])


def _of_output(node: NodeView, known: Mapping[Value, TensorRange]) -> TensorRange | None:
    """Return a range that covers the values of the outputs of a node."""
    traits, source = ops.traits(node), node.input(0)
    if ops.moves_codes(node) or traits.passes_values or traits.keeps_magnitude or traits.span is ops.same_span:
        return known.get(source) if source is not None else None
    if traits.codes is ops.CodePath.JOINED:
        joined = [known.get(value) for value in node.present_inputs]
        ranges = [found for found in joined if found is not None]
        return max(ranges, key=lambda each: each.amax) if len(ranges) == len(joined) and ranges else None
    if traits.bound is not None:
        return replace(symmetric_range("", traits.bound / 127), min=0.0 if traits.nonnegative else -traits.bound)
    return None


def _same_before(node: NodeView, index: ModelIndex) -> Iterator[tuple[Value, Value]]:
    """Yield the inputs that may have the range of the output, with it: the rounded output is then the same."""
    traits, made = ops.traits(node), node.present_outputs
    if len(made) != 1:
        return
    starts = traits.nonnegative or (traits.nonnegative_if is not None and traits.nonnegative_if(node, index.constants))
    if traits.codes is ops.CodePath.JOINED:
        yield from ((value, made[0]) for value in node.present_inputs)
    elif ops.moves_codes(node) or traits.passes_values or (starts and traits.fused_behind_products):
        yield from ((value, made[0]) for value in node.present_inputs[:1])
