"""Compare the float form of a quantized model with its baseline.

Quantization changes neither operators nor constants. So a model without Q and DQ, with the baseline's weights in place
of stored codes, computes the same as its baseline, even if tools folded, fused, renamed or rescaled something. If it
does not, the constants that differ are replaced by those of the baseline. If the models then compute the same, these
constants are the reason (:mod:`qdqtool.accuracy.layers.constant_faults`); if not, the graph is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from qdqtool.accuracy.layers.constant_faults import (
    MOST_ERRORS,
    MOST_ERRORS_ON_RANDOM,
    ConstantFaults,
    is_bias,
    other_constants,
    with_constants,
)
from qdqtool.errors import QdqError
from qdqtool.models import ops
from qdqtool.models.diff.matching import Pairs, match
from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.model_index import FLOATS, ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.structure import operation
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.io.tensors import iter_tensors, make_tensor, pending_tensor, read_array
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import ScopePath
from qdqtool.models.ops.support.imposed_bounds import NO_BOUNDS, ImposedBounds
from qdqtool.models.options import HalfType
from qdqtool.models.payload import Payload
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.models.running.own_evaluator import has_large_weights, open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.models.transforms.half import convert_to_half
from qdqtool.models.transforms.strip_edits import StripEdits
from qdqtool.numerics.dtypes import FLOAT64, Array

SAMPLES = 8
"""Number of first samples on which the error of a layer is measured, with the one that lost most. Both models compute
the first and the one that lost most, where a fault shows best: those with outputs."""

SAME_DB = 60.0
"""Lowest SQNR of two models that compute the same in float32 (docs/developers/measurements.md)."""

HALF_DB = 15.0
"""With float16 or bfloat16, two models differ by rounding. They compute the same if their SQNR is at most this far
below that of the baseline with relative errors of the same size in its weights. Measured: within 4 dB of it."""

GAIN_DB = 6.0
"""Constants matter if an output gains this with those of the baseline."""

NAMED = 3
"""Largest number of nodes that a message names."""

Samples = Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]]
"""Inputs, and the outputs of the baseline by the names of the model."""

_Place = tuple[ScopePath, NodeKey]
_FOLDABLE = {"BatchNormalization", "Mul", "Add", "Sub", "Div"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatForm:
    """The comparison of a float form with the baseline.

    Attributes:
        unknown: Why the two cannot be compared; empty if they can.
        lowest_db: SQNR of the worst output; infinite if all outputs are equal.
        constants: The constants that are not the baseline's, one line each.
        doubtful: Biases of which random data cannot tell whether they are corrections, one line each.
        corrected: Number of biases that differ by a correction.
        structure: How the graphs differ, in words; empty if they compute the same.
    """

    unknown: str = ""
    lowest_db: float = np.inf
    constants: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    corrected: int = 0
    structure: str = ""


@dataclass(frozen=True, slots=True)
class Counterpart:
    """A quantized tensor with its counterpart in the baseline.

    Attributes:
        entry: The Q, or the DQ of stored codes.
        tensor: The tensor of the baseline.
        bounds: The Relu or Clip of the baseline that the Q replaces.
        steps: The largest distance of a weight from the baseline's, in steps; None for an activation.
        problem: Why the two could not be compared; empty if they could.
    """

    entry: QdqNode
    tensor: Value
    bounds: ImposedBounds
    steps: float | None
    problem: str


def compare_float_form(
    index: ModelIndex,
    baseline: ModelIndex,
    tensors: tuple[Sequence[Counterpart], Sequence[QdqNode]],
    limits: tuple[float | None, bool],
    samples: Samples,
) -> FloatForm:
    """Compare the float form of a model with its baseline.

    Args:
        index: The quantized model.
        baseline: The float model.
        tensors: The quantized tensors with their counterparts in the baseline, and the Q and DQ nodes without one.
        limits: Largest legal distance of a stored weight from the baseline's, None or infinite for no limit; and
            whether inputs are random, so that biases may be corrected with data of another range.
        samples: Inputs, with the outputs of the baseline for those that both models compute.
    """
    (found, lonely), (weight_steps, is_random) = tensors, limits
    alone = [each.node for each in lonely if not each.is_quantize]
    alone += [each.entry.node for each in found if not each.entry.is_quantize and each.problem]
    doubt = f"the weight at {_named(alone[0])} has no counterpart in the baseline" if alone else ""
    if baseline.qdq.nodes:
        doubt = "the baseline has Q and DQ nodes"
    elif weight_steps in {None, np.inf}:
        doubt = "weights may differ from those of the baseline (--max-weight-steps inf)"
    try:
        places = {_place(each.entry): each for each in found}
        return _Comparison(index, baseline, places, samples, is_random).result(doubt)
    except QdqError as error:
        return FloatForm(unknown=error.message)


class _FloatFormEdits(StripEdits):
    """Builds a float form. A Relu or Clip comes back only where the baseline has it."""

    tensors: Mapping[_Place, Counterpart]
    baseline: ModelIndex

    def bounds_of(self, quantizer: QdqNode) -> ImposedBounds:
        found = self.tensors.get(_place(quantizer))
        return NO_BOUNDS if found is not None and found.bounds == NO_BOUNDS else super().bounds_of(quantizer)

    def float_tensor(self, entry: QdqNode, stored: TensorProto) -> TensorProto | None:
        tensor = super().float_tensor(entry, stored)
        found = self.tensors.get(_place(entry))
        if tensor is None or found is None or found.problem:
            return tensor
        name, kind, model = tensor.name, tensor.data_type, self.index.model
        own = model.payloads[name]

        def make() -> bytes:
            plain = self.baseline.constant(found.tensor)
            return own.make() if plain is None else make_tensor(name, plain, kind).raw_data

        return pending_tensor(model, name, tuple(tensor.dims), kind, Payload(own.nbytes, make))


@dataclass(frozen=True, slots=True)
class _Comparison:
    index: ModelIndex
    baseline: ModelIndex
    tensors: Mapping[_Place, Counterpart]
    samples: Samples
    is_random: bool

    def result(self, doubt: str) -> FloatForm:
        builder = _FloatFormEdits(ModelIndex.of(self.index.model.fork()))
        builder.tensors, builder.baseline = self.tensors, self.baseline
        builder.add_all()
        form = apply_edits(builder.index.model, builder.edits)
        own_db, output = self._worst(form)
        if own_db >= SAME_DB:
            return FloatForm(lowest_db=own_db)
        left = [*builder.lost, *builder.kept]
        if left or doubt:
            return FloatForm(unknown=f"{left[0].node} stays: {left[0].reason}" if left else doubt)
        plain = ModelIndex.of(form)
        pairs = match(self.baseline.view, plain.view)[0]
        before = {after: each for each, after in pairs.items()}
        others = list(other_constants(before, plain, self.baseline))
        plain_db, output = self._worst(with_constants(plain, others)) if others else (own_db, output)
        half = _half_type(form, self.baseline.model)
        least = SAME_DB if half is None else min(SAME_DB, self._rounded_db(half))
        if plain_db < least:
            changed = {each.node for each in others}
            return self._structure(
                plain, pairs, changed, f"output '{output}' keeps {plain_db:.1f} dB of the {least:.0f} needed"
            )
        if own_db >= least and plain_db < own_db + GAIN_DB:
            return FloatForm(lowest_db=own_db)
        rounded = {
            each.entry.data.name: each.steps
            for each in self.tensors.values()
            if each.entry.is_quantize and each.entry.data is not None and each.steps is not None
        }
        most = MOST_ERRORS_ON_RANDOM if self.is_random else MOST_ERRORS
        found = ConstantFaults(self.index, self.baseline, rounded, [sample for sample, _ in self.samples], most)
        # What is left may change nothing, such as a mask that float16 cannot hold.
        faults = [
            (fault, self.is_random and is_bias(each))
            for each, fault in found.of(others, before)
            if self._worst(with_constants(plain, [other for other in others if other is not each]))[0] < least
        ]
        constants, doubtful = (tuple(text for text, doubt in faults if doubt is kind) for kind in (False, True))
        corrected = len(others) - len(faults)
        return FloatForm(lowest_db=plain_db, constants=constants, doubtful=doubtful, corrected=corrected)

    def _worst(self, model: Model) -> tuple[float, str]:
        """Return the lowest SQNR of a float output against the baseline's, and its name."""
        errors: dict[str, AccumulatedError] = {}
        with open_session(model, plan_split(ModelIndex.of(model))) as session:
            for sample, wanted in self.samples:
                names = [name for name, array in wanted.items() if array.dtype.kind in "fV"]
                for name, found in session.run(sample, names).items() if names else ():
                    errors.setdefault(name, AccumulatedError()).add(wanted[name], found)
        if not errors:
            raise QdqError("no output of the baseline is a float")
        return min((_decibels(error), name) for name, error in errors.items())

    def _rounded_db(self, half: HalfType) -> float:
        """Return the lowest SQNR that rounding weights and results to a type of 16 bits explains."""
        if has_large_weights(self.baseline.model):
            raise QdqError("the rounding of large float16 weights is not computed")
        random, model = np.random.default_rng(0), self.baseline.model.fork(copy_model(self.baseline.model.proto))
        for tensor in iter_tensors(model.proto):
            # Vectors may be scales of a Resize, which decide about shapes.
            if tensor.data_type in FLOATS and len(tensor.dims) > 1:
                array = read_array(model, tensor)
                factors = 1 + random.uniform(-half.roundoff, half.roundoff, array.shape)
                tensor.CopyFrom(make_tensor(tensor.name, array.astype(FLOAT64) * factors, tensor.data_type))
        results = self._worst(convert_to_half(self.baseline.model, half).model)[0]
        # A value beyond the type explains nothing.
        return min([self._worst(model)[0], *[results] * bool(np.isfinite(results))]) - HALF_DB

    def _structure(self, plain: ModelIndex, pairs: Pairs, changed: Collection[NodeView], fault: str) -> FloatForm:
        lost = [node for node in _computing(self.baseline) if node not in pairs]
        new = [node for node in _computing(plain) if node not in pairs.values()]
        intact = {before for before, after in pairs.items() if after not in changed}
        folded = next((node for node in lost if _is_foldable(node, self.baseline, intact)), None)
        # Folding makes no such operator: an Add that became a Sub was not folded.
        if folded is not None and not any(node.is_op(*_FOLDABLE) for node in new):
            return FloatForm(unknown=f"{_named(folded)} of the baseline has no counterpart, as after folding")
        others = [before for before, after in pairs.items() if operation(before) != operation(after)]
        found = [f"the model lacks {_listed(lost, new)}", f"the baseline lacks {_listed(new, lost)}"]
        # Two versions of an operator may write an attribute in two ways, so missing operators are named first.
        attributes = [f"attributes differ at {_listed(others, ())}"] if others else []
        named = [each for each in found if each[-1] == "'"] or attributes
        return FloatForm(structure="; ".join([fault, *named]))


def _decibels(error: AccumulatedError) -> float:
    if error.other_shapes or error.nonfinite_mismatches:
        return -np.inf
    return np.inf if error.exact else error.sqnr_db if error.sqnr_db is not None else -np.inf


def _is_foldable(node: NodeView, index: ModelIndex, intact: Collection[NodeView]) -> bool:
    """Return whether an optimizer may have folded a node into a layer next to it, which then is not ``intact``."""
    stored = (value for value in node.present_inputs if index.is_constant(value))
    beside = [use.node for value in node.present_outputs for use in value.uses]
    beside += [value.producer for value in node.present_inputs if value.producer is not None]
    has_layer = any(each not in intact and ops.traits(each).is_layer for each in beside)
    return node.is_op(*_FOLDABLE) and has_layer and any(map(index.is_float, stored))


def _computing(index: ModelIndex) -> Iterator[NodeView]:
    for node in index.view.nodes():
        made = node.output()
        if made is None or not index.is_constant(made):
            yield node


def _half_type(*models: Model) -> HalfType | None:
    """Return the coarsest type of 16 bits among the constants of models."""
    kinds = {tensor.data_type for model in models for tensor in iter_tensors(model.proto)}
    return next((half for half in (HalfType.BF16, HalfType.FP16) if half.elem_type in kinds), None)


def _listed(nodes: Sequence[NodeView], others: Iterable[NodeView]) -> str:
    """Name the first nodes whose operator the other nodes lack; a Cast belongs to a type."""
    known = {"Cast", *(node.op_type for node in others)}
    return ", ".join([_named(node) for node in nodes if node.op_type not in known][:NAMED])


def _named(node: NodeView) -> str:
    return f"{node.op_type} '{node.label}'"


def _place(entry: QdqNode) -> _Place:
    return entry.node.scope.path, entry.node.key
