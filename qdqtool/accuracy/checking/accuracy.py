"""Measure the errors of quantization on a few samples: at the outputs, and of each pair alone."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qdqtool.accuracy.checking.repeatable import require_repeatable
from qdqtool.accuracy.report import Accuracy, OutputAccuracy
from qdqtool.errors import QdqError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.tensors import element_count
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import display
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.models.running.observer import Observer
from qdqtool.models.running.own_evaluator import open_session, run_each
from qdqtool.models.running.own_nodes import rounded
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics.cores import LARGE, side_by_side
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.noise import Noise
from qdqtool.quantization.planning.degenerate import ZEROED
from qdqtool.quantization.report import TensorAccuracy, ZeroedTensor
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.split import MeasuringData

SLICE = 32
"""Largest number of samples that are run."""

MIN_SAMPLES = 2
"""Smallest number of samples that are run, however large the model is."""

ENOUGH = 1 << 23
"""No further sample is run after this many values of quantized tensors, to cost less than calibration."""

WORST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredModel:
    """A quantized model that is measured.

    Attributes:
        make: Makes the model after the float session is closed; second, the same with float32 for half precision.
        plan: The pairs of the model.
        written: The pairs of the written model if their scales differ from ``plan``; None if it is the same model.
    """

    make: Callable[[], Sequence[Model]]
    plan: QuantPlan
    written: QuantPlan | None = None


def measure_accuracy(before: Model, after: MeasuredModel, data: MeasuringData, runs: FloatRuns) -> Accuracy:
    """Run a float model and its quantized form on the first samples.

    The number of samples is between :data:`MIN_SAMPLES` and :data:`SLICE`; it is enough for :data:`ENOUGH` values of
    quantized tensors. The quantized model runs in the reference session: the numbers follow ONNX's definition.

    Returns:
        The accuracy. If the reference cannot run the quantized model, the accuracy has only a ``problem`` in words.
    """
    index, feeds = runs.index_of(before), data.feeds
    written = {placement.slot: placement for placement in after.written or ()}
    found = [pair for place in after.plan if (pair := _Pair.of(place, written.get(place.slot, place), index))]
    results = [
        value for name in index.view.main.output_names() if index.is_float(value := index.view.main.values[name])
    ]
    inner = [pair.value for pair in found if not pair.is_constant]
    try:
        expected = _expected(index, runs.observer(before, [*results, *inner]), results, found, feeds.first(SLICE))
        # The float session is closed, so that only one model is in memory.
        runs.close()
        outputs, *full = (_compared(expected, model, feeds, runs.values) for model in after.make())
    except QdqError as error:
        return Accuracy(samples=0, problem=error.message)
    _add_all((pair, (array,)) for pair in found if (array := pair.constant(index)) is not None)
    costs = [result for pair in found if (result := pair.result()) is not None]
    full_db = {output.name: output.sqnr_db for output in full[0]} if full else {}
    zeroed = tuple(lost for pair in found if (lost := pair.zeroed()) is not None)
    return Accuracy(
        samples=len(expected),
        held_back=data.held_back,
        validation=data.validation,
        reason=data.reason,
        refitted=after.written is not None,
        outputs=tuple(replace(output, float32_db=full_db.get(output.name)) for output in outputs),
        worst=tuple(sorted(costs, key=lambda result: result.sqnr_db)[:WORST]),
        zeroed=zeroed,
    )


@dataclass(slots=True, eq=False)
class _Pair:
    """A measured placement, the same placement in the written model, its error, and the counts of its values."""

    placement: Placement
    written: Placement
    value: Value
    is_constant: bool
    error: AccumulatedError
    before: int = 0
    after: int = 0
    """Number of nonzero values before the pair, and after the pair with the written scale."""

    @classmethod
    def of(cls, placement: Placement, written: Placement, index: ModelIndex) -> "_Pair | None":
        """Make the entry of a placement, or return None for a tensor that only the opset upgrade added."""
        value = index.view.scope(placement.slot.scope).values.get(placement.slot.tensor)
        if value is None:
            return None
        return cls(placement, written, value, index.is_constant(value), AccumulatedError())

    def add(self, *arrays: Array) -> None:
        for x in arrays:
            y = rounded(x, self.placement)
            self.error.add(x, y)
            if not self.is_constant:
                self.before += int(np.count_nonzero(x))
                self.after += int(np.count_nonzero(y if self.written is self.placement else rounded(x, self.written)))

    def zeroed(self) -> ZeroedTensor | None:
        """Return the entry of the tensor if nearly all its values became 0, else None."""
        scale, slot = self.written.params.scale, self.written.slot
        share = 1 - self.after / self.before if self.before else 0.0
        if share <= ZEROED or scale.size != 1:
            return None
        return ZeroedTensor(tensor=slot.tensor, graph=display(slot.scope), share=share, scale=scale.item())

    def used(self, runs: int) -> int:
        """Return the number of values of the tensor in the first ``runs`` runs."""
        stored = self.value.initializer
        return self.error.elements + (element_count(stored) * runs if stored is not None else 0)

    def constant(self, index: ModelIndex) -> Array | None:
        return index.constant(self.value) if self.is_constant else None

    def result(self) -> TensorAccuracy | None:
        """Return the accuracy of the tensor, or None if it has no error or only zeros."""
        if self.error.sqnr_db is None:
            return None
        slot, kind = self.placement.slot, "weight" if self.is_constant else "activation"
        return TensorAccuracy(
            tensor=slot.tensor, graph=display(slot.scope), kind=kind, sqnr_db=round(self.error.sqnr_db, 4)
        )


def _expected(
    index: ModelIndex, observer: Observer, results: list[Value], pairs: list[_Pair], feeds: Feeds
) -> list[Mapping[str, Array]]:
    """Run the float model, count the error of each pair, and return the outputs by sample."""
    expected: list[Mapping[str, Array]] = []
    kept = 0
    for number, sample in enumerate(feeds):
        seen = kept + sum(pair.used(number) for pair in pairs)
        if number >= MIN_SAMPLES and seen >= ENOUGH:
            break
        run = observer.run(sample)
        found = {value.name: observer.output(run, value) for value in results}
        # copy(): one array of a session keeps all memory of the run alive.
        expected.append({name: array.copy() for name, array in found.items() if array is not None})
        kept += sum(array.size for array in expected[-1].values())
        if not number:
            require_repeatable(index, observer, sample, expected[-1])
        if seen < ENOUGH:
            _add_all((pair, tuple(observer.arrays(run, sample, pair.value))) for pair in pairs)
    return expected


def _add_all(taken: Iterable[tuple[_Pair, Sequence[Array]]]) -> None:
    """Count the errors of pairs, several pairs in parallel."""
    for _ in side_by_side(
        lambda each: each[0].add(*each[1]), taken, lambda each: any(x.nbytes > LARGE for x in each[1])
    ):
        pass


def _compared(
    expected: list[Mapping[str, Array]], after: Model, feeds: Feeds, values: int
) -> tuple[OutputAccuracy, ...]:
    errors: dict[str, list[AccumulatedError]] = {name: [] for outputs in expected for name in outputs}
    split = plan_split(ModelIndex.of(after))
    with open_session(after, split) as quantized:
        runs = run_each(quantized, feeds.first(len(expected)), list(errors), values)
        for outputs, found in zip(expected, runs, strict=True):
            for name, array in outputs.items():
                errors[name].append(AccumulatedError.of(array, found[name]))
    return tuple(filter(None, (_output(name, samples) for name, samples in errors.items())))


def _output(name: str, samples: Sequence[AccumulatedError]) -> OutputAccuracy | None:
    """Return the entry of an output, or None if nothing was compared."""
    error = AccumulatedError.joined(samples)
    if not (error.elements or error.other_shapes):
        return None
    noise = Noise(np.array([[each.signal] for each in samples]), np.array([[each.noise] for each in samples]))
    sqnr, standard_error = error.sqnr_db, float(noise.sqnr_error_db()[0])
    return OutputAccuracy(
        name=name,
        sqnr_db=None if sqnr is None else round(sqnr, 4),
        exact=error.exact,
        finite=not error.nonfinite_mismatches,
        other_shapes=error.other_shapes,
        float_nonfinite=error.nonfinite,
        standard_error_db=None if math.isnan(standard_error) else round(standard_error, 2),
    )
