"""What quantizing cost, on a few samples of the calibration data: the outputs, and what each pair lost by itself."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qdqtool.data import Feeds
from qdqtool.errors import QdqError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.view import Value
from qdqtool.graph.io.tensors import element_count
from qdqtool.graph.model import Model
from qdqtool.graph.scope import display
from qdqtool.numerics.dtypes import Array
from qdqtool.plan import Placement, QuantPlan
from qdqtool.running.accumulated_error import AccumulatedError
from qdqtool.running.fake_quantize import rounded
from qdqtool.running.float_runs import FloatRuns
from qdqtool.running.observer import Observer
from qdqtool.running.own_evaluator import open_session
from qdqtool.running.own_support import plan_split

SLICE = 32
"""Most samples that are run."""

MIN_SAMPLES = 2
"""Samples that are run however large the model is."""

ENOUGH = 1 << 23
"""Values of quantized tensors, read in all runs, after which no more follow: so it costs a fraction of calibrating."""

WORST = 5

ZEROED = 0.99
"""Part of a tensor's values that may be rounded to 0 without a word: heavy tails of trained networks stay far below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputAccuracy:
    """One output of the quantized model against the float model's.

    Attributes:
        name: Name of the output.
        sqnr_db: ``10 log10(sum(a**2) / sum((a - x)**2))`` in dB over all samples; None where it is no number: equal
            outputs, or a float output of zeros.
        exact: Whether every element is equal.
        finite: Whether the quantized model gave NaN or infinity nowhere that the float model did not.
        other_shapes: Samples for which both models gave different shapes, as the boxes that a NonMaxSuppression keeps;
            they are in no number.
        float_nonfinite: How many elements of the float model's output are NaN or infinite; they are in no number.
    """

    name: str
    sqnr_db: float | None
    exact: bool
    finite: bool
    other_shapes: int = 0
    float_nonfinite: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAccuracy:
    """What one pair takes from its own tensor, with every other tensor still float.

    Attributes:
        tensor: Name of the tensor.
        graph: Its scope; empty for the main graph.
        kind: ``weight`` or ``activation``.
        sqnr_db: Of the values behind the pair against those in front of it, in dB.
    """

    tensor: str
    graph: str
    kind: str
    sqnr_db: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroedTensor:
    """An activation of which little is left, whatever its error says: a few large values can hide that.

    Attributes:
        tensor: Name of the tensor.
        graph: Its scope; empty for the main graph.
        share: Part of its values other than 0 that its pair rounds to 0.
        scale: The scale of the pair.
    """

    tensor: str
    graph: str
    share: float
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """What quantizing cost.

    Attributes:
        samples: How many samples were run: the first of the calibration data.
        outputs: Every output that is a float tensor.
        worst: The pairs that lose most, worst first.
        zeroed: Activations with one scale of whose values more than :data:`ZEROED` become 0.
        problem: Why nothing could be measured; empty where it was.
    """

    samples: int
    outputs: tuple[OutputAccuracy, ...] = ()
    worst: tuple[TensorAccuracy, ...] = ()
    zeroed: tuple[ZeroedTensor, ...] = ()
    problem: str = ""


def measure(before: Model, after: Model, plan: QuantPlan, feeds: Feeds, runs: FloatRuns) -> Accuracy:
    """Run a float model and its quantized form on the first samples.

    How many follows from the size of the model: until :data:`ENOUGH` values of quantized tensors were used, at most
    :data:`SLICE` and, if there are so many, at least :data:`MIN_SAMPLES`.

    The quantized model runs in the reference session, so the numbers are those of ONNX's own definition and not of one
    backend's kernels.

    Args:
        before: The float model that was calibrated.
        after: The quantized model.
        plan: The pairs that were put in.
        feeds: The calibration data.
        runs: Runs the float model; its session is closed afterwards.

    Returns:
        The accuracy; with a problem in words where the reference cannot run the quantized model.
    """
    index = runs.index_of(before)
    found = [pair for placement in plan if (pair := _Pair.of(placement, index)) is not None]
    results = [
        value for name in index.view.main.output_names() if index.is_float(value := index.view.main.values[name])
    ]
    inner = [pair.value for pair in found if not pair.is_constant]
    try:
        expected = _expected(runs.observer(before, [*results, *inner]), results, found, feeds.first(SLICE))
        runs.close()  # one model at a time
        outputs = _compared(expected, after, feeds)
    except QdqError as error:
        return Accuracy(samples=0, problem=error.message)
    for pair in found:
        pair.add_constant(index)
    zeroed = tuple(lost for pair in found if (lost := pair.zeroed()) is not None)
    return Accuracy(samples=len(expected), outputs=outputs, worst=_worst(found), zeroed=zeroed)


@dataclass(slots=True, eq=False)
class _Pair:
    """One placement, with what it costs so far."""

    placement: Placement
    value: Value
    is_constant: bool
    error: AccumulatedError
    before: int = 0
    after: int = 0
    """How many values were not 0, before and behind the pair."""

    @classmethod
    def of(cls, placement: Placement, index: ModelIndex) -> "_Pair | None":
        """None for a tensor that only the opset upgrade brought in."""
        value = index.view.scope(placement.slot.scope).values.get(placement.slot.tensor)
        if value is None:
            return None
        return cls(placement, value, index.is_constant(value), AccumulatedError())

    def add(self, x: Array) -> None:
        y = rounded(x, self.placement)
        self.error.add(x, y)
        if not self.is_constant:
            self.before += int(np.count_nonzero(x))
            self.after += int(np.count_nonzero(y))

    def zeroed(self) -> ZeroedTensor | None:
        """What became of it, if nearly all of it became 0."""
        scale, slot = self.placement.params.scale, self.placement.slot
        share = 1 - self.after / self.before if self.before else 0.0
        if share <= ZEROED or scale.size != 1:
            return None
        return ZeroedTensor(tensor=slot.tensor, graph=display(slot.scope), share=share, scale=float(scale))

    def used(self, runs: int) -> int:
        """How many values of it went into so many runs."""
        stored = self.value.initializer
        return self.error.elements + (element_count(stored) * runs if stored is not None else 0)

    def add_constant(self, index: ModelIndex) -> None:
        array = index.constant(self.value) if self.is_constant else None
        if array is not None:
            self.add(array)

    def result(self) -> TensorAccuracy | None:
        """None for a tensor that loses nothing, or was zero everywhere."""
        if self.error.sqnr_db is None:
            return None
        slot = self.placement.slot
        kind = "weight" if self.is_constant else "activation"
        return TensorAccuracy(
            tensor=slot.tensor, graph=display(slot.scope), kind=kind, sqnr_db=round(self.error.sqnr_db, 4)
        )


def _expected(observer: Observer, results: list[Value], pairs: list[_Pair], feeds: Feeds) -> list[Mapping[str, Array]]:
    """The outputs of the float model, sample by sample; its tensors are rounded and added up meanwhile."""
    expected: list[Mapping[str, Array]] = []
    kept = 0
    for number, sample in enumerate(feeds):
        seen = kept + sum(pair.used(number) for pair in pairs)
        if number >= MIN_SAMPLES and seen >= ENOUGH:
            break
        run = observer.run(sample)
        found = {value.name: observer.output(run, value) for value in results}
        expected.append({name: array.copy() for name, array in found.items() if array is not None})
        kept += sum(array.size for array in expected[-1].values())
        for pair in pairs if seen < ENOUGH else ():
            for array in observer.arrays(run, sample, pair.value):
                pair.add(array)
    return expected


def _compared(expected: list[Mapping[str, Array]], after: Model, feeds: Feeds) -> tuple[OutputAccuracy, ...]:
    names = dict.fromkeys(name for outputs in expected for name in outputs)
    errors = {name: AccumulatedError() for name in names}
    split = plan_split(ModelIndex.of(after))
    with open_session(after, split) as quantized:
        for outputs, sample in zip(expected, feeds.first(len(expected)), strict=True):
            found = quantized.run(sample, list(errors))
            for name, array in outputs.items():
                errors[name].add(array, found[name])
    return _outputs(errors)


def _outputs(errors: Mapping[str, AccumulatedError]) -> tuple[OutputAccuracy, ...]:
    return tuple(_output(name, error) for name, error in errors.items() if error.elements or error.other_shapes)


def _output(name: str, error: AccumulatedError) -> OutputAccuracy:
    sqnr = error.sqnr_db
    return OutputAccuracy(
        name=name,
        sqnr_db=None if sqnr is None else round(sqnr, 4),
        exact=error.exact,
        finite=not error.nonfinite_mismatches,
        other_shapes=error.other_shapes,
        float_nonfinite=error.nonfinite,
    )


def _worst(pairs: list[_Pair]) -> tuple[TensorAccuracy, ...]:
    results = [result for pair in pairs if (result := pair.result()) is not None]
    return tuple(sorted(results, key=lambda result: result.sqnr_db)[:WORST])
