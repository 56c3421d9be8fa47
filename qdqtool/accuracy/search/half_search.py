"""Convert a model to half precision such that every output keeps a given SQNR: some nodes stay float32 for that.

The nodes are divided into parts in the order of the graph. The noise of each part is measured with all other nodes in
float32; the noise of several parts is predicted as the sum. The parts with most noise stay float32 until the rest is
predicted to keep the SQNR. Such a part is divided further, so that nodes without noise are set free, and the result is
measured.
"""

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from qdqtool.accuracy.checking.accuracy import MeasuredModel, measure_accuracy
from qdqtool.accuracy.report import Accuracy
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal, worst_db
from qdqtool.errors import GateError, UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.options import HalfType
from qdqtool.models.plan import QuantPlan
from qdqtool.models.transforms.half import HalfConversion, NodeId, convert_to_half
from qdqtool.models.transforms.strip import strip_from
from qdqtool.models.transforms.taps import TensorKey
from qdqtool.numerics.noise import WORST_DB
from qdqtool.quantization.planning.high_precision import float_types
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.split import MeasuringData

DEFAULT_SQNR_DB = {HalfType.FP16: 40.0, HalfType.BF16: 25.0}
"""The SQNR in dB that every output keeps on real data unless the user gives another limit.

On random inputs, an output is often nearly constant or nearly 0, and such an SQNR would keep good nodes in float32.
"""

SAMPLES = 8
"""Largest number of samples on which nodes are chosen."""

PARTS = 8
"""Number of parts into which the nodes are divided first."""

PROBES = 64
"""After this many measurements, no part is divided any more."""

MARGIN_DB, MOST_DB = 0.3, 6.0
"""A result that misses the SQNR on other samples raises the target by the missing dB, at most the second number, and
the first."""

LOSS_DB = 0.5
"""By default, the SQNR of a model with Q/DQ may fall by this much."""

_Part = tuple[NodeId, ...]

Probe = Callable[[frozenset[NodeId]], float]
"""Returns the SQNR of the worst output, in dB, if only these nodes stay float32; infinity without noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfRequest:
    """A conversion to half precision.

    Attributes:
        half: The type that replaces float32.
        limit_db: The SQNR in dB that every output keeps; None if finite outputs are enough.
        is_default: Whether the limit may be lowered for a model whose Q/DQ already cost more.
        measured: The largest finite magnitude of tensors, by scope and name.
        refuse: Returns why a node must stay float32, or "" if it may be half precision.
        reserve: How many times larger values may be than the measured ones.
    """

    half: HalfType
    limit_db: float | None
    is_default: bool
    measured: Mapping[TensorKey, float]
    refuse: Callable[[NodeView], str]
    reserve: float = 1.0

    def __post_init__(self) -> None:
        if self.limit_db is not None:
            AccuracyGoal(min_sqnr_db=self.limit_db).validate(has_metric=False)

    def below(self, before_db: float) -> "HalfRequest":
        """Return the request with a default limit of at most :data:`LOSS_DB` below the SQNR of a model with Q/DQ."""
        if self.limit_db is None or not self.is_default:
            return self
        return replace(self, limit_db=min(self.limit_db, before_db - LOSS_DB))

    def convert(
        self, model: Model, kept: frozenset[NodeId] = frozenset(), *, saves_casts: bool = True
    ) -> Transformed[HalfConversion]:
        """Convert a model; the nodes in ``kept`` stay float32 too."""

        def refuse(node: NodeView) -> str:
            return self.refuse(node) or self.loss(node, kept)

        return convert_to_half(model, self.half, self.measured, refuse, saves_casts=saves_casts, reserve=self.reserve)

    def loss(self, node: NodeView, kept: Container[NodeId]) -> str:
        """Return why a node must stay float32 if it is one of ``kept``, or ""."""
        loss = "become NaN or infinite" if self.limit_db is None else f"miss the limit of {self.limit_db:g} dB"
        return f"in {self.half.onnx_name} it would make an output {loss}" if (node.scope.path, node.key) in kept else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfSearch:
    """A conversion in which every output keeps the limit.

    Attributes:
        request: The conversion, with the limit that was kept.
        kept: The nodes that stay float32 for the limit.
        accuracy: The outputs against those of the model without its Q/DQ.
        before_db: The SQNR in dB of the worst output before the conversion; None for a model without Q/DQ.
    """

    request: HalfRequest
    kept: frozenset[NodeId]
    accuracy: Accuracy
    before_db: float | None


def convert_within(
    model: Model, request: HalfRequest, choosing: MeasuringData, measuring: MeasuringData, runs: FloatRuns
) -> HalfSearch:
    """Find the nodes that stay float32 so that every output keeps the limit.

    Outputs are compared with those of the model without its Q/DQ. Two forms of one quantized model differ by more: a
    value between two codes is rounded up in one form and down in the other.

    Args:
        model: The model with float32 nodes.
        request: The conversion.
        choosing: The samples to choose nodes with; the first :data:`SAMPLES` are run.
        measuring: The samples that the result is measured on.
        runs: Runs the model without its Q/DQ.

    Raises:
        UsageError: No node can be converted, the model or the result cannot be run, or no output can be compared.
        GateError: No node can be converted within the limit.
    """
    _require_nodes(request.convert(model).report, model, request.half)
    few, reference, before = MeasuringData(feeds=choosing.feeds.first(SAMPLES)), model, None
    if ModelIndex.of(model).qdq.nodes:
        reference = strip_from(model).model
        before = _worst(_compared(reference, model, measuring, runs))
        request = request.below(before)
    target = limit = -WORST_DB if request.limit_db is None else request.limit_db
    computing = request.convert(model).report.computing

    def probe(kept: frozenset[NodeId]) -> float:
        # A light node alone would stay float32 to save Casts, and show no noise.
        return _worst(_compared(reference, request.convert(model, kept, saves_casts=False).model, few, runs))

    kept = frozenset[NodeId]()
    while True:
        done = request.convert(model, kept)
        if not done.report.nodes:
            least = "is finite" if request.limit_db is None else f"keeps {limit:g} dB"
            raise GateError(
                f"no node can compute in {request.half.onnx_name} such that every output {least}",
                hint=None if request.limit_db is None else "a lower limit: `--min-sqnr DB`",
            )
        accuracy = _compared(reference, done.model, measuring, runs)
        worst = _worst(accuracy)
        if worst >= limit:
            return HalfSearch(request=request, kept=kept, accuracy=accuracy, before_db=before)
        kept, found = find_kept(computing, target, probe)
        if math.isfinite(found):
            target = max(target, found) + min(limit - worst, MOST_DB) + MARGIN_DB


def _require_nodes(done: HalfConversion, model: Model, half: HalfType) -> None:
    if done.nodes:
        return
    if done.kept:
        first = done.kept[0]
        raise UsageError(f"no node can compute in {half.onnx_name}; {first.node} stays float32: {first.reason}")
    raise UsageError(f"the model has no node that computes in float32{float_types(model)}")


def _compared(reference: Model, model: Model, data: MeasuringData, runs: FloatRuns) -> Accuracy:
    return measure_accuracy(reference, MeasuredModel(make=lambda: [model], plan=QuantPlan(())), data, runs)


def _worst(accuracy: Accuracy) -> float:
    found = worst_db(accuracy)
    return math.inf if found is None else found


def find_kept(nodes: Sequence[NodeId], limit_db: float, probe: Probe) -> tuple[frozenset[NodeId], float]:
    """Return few nodes, without which every output keeps the limit, and the SQNR of the worst output.

    Args:
        nodes: The nodes that may be half precision, in the order of the graph.
        limit_db: The limit in dB.
        probe: Measures a choice.
    """
    every, noise = frozenset(nodes), dict[_Part, float]()
    divided = _divided(tuple(nodes), PARTS)
    while divided:
        noise |= {part: 10 ** (-probe(every - frozenset(part)) / 10) for part in divided}
        large = [part for part in _noisiest(noise, limit_db) if len(part) > 1]
        divided = [half for part in large for half in _divided(part, 2)] if len(noise) + len(large) <= PROBES else []
        noise = {part: value for part, value in noise.items() if not divided or part not in large}
    order, count = _ranked(noise), len(_noisiest(noise, limit_db))
    while count < len(order):
        kept = frozenset(node for part in order[:count] for node in part)
        worst = probe(kept)
        if worst >= limit_db:
            return kept, worst
        count += max(1, count // 4)
    return every, math.inf


def _divided(nodes: _Part, parts: int) -> list[_Part]:
    size = max(1, math.ceil(len(nodes) / parts))
    return [nodes[start : start + size] for start in range(0, len(nodes), size)]


def _ranked(noise: Mapping[_Part, float]) -> list[_Part]:
    return sorted(noise, key=lambda part: noise[part], reverse=True)


def _noisiest(noise: Mapping[_Part, float], limit_db: float) -> list[_Part]:
    """Return the parts with most noise, without which the others are predicted to keep the limit."""
    order, budget = _ranked(noise), 10 ** (-limit_db / 10)
    counts = (count for count in range(len(order)) if math.fsum(noise[part] for part in order[count:]) <= budget)
    return order[: next(counts, len(order))]
