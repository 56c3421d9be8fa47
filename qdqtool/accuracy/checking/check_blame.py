"""Name the layers whose pairs make most of the noise at the outputs of a checked model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from qdqtool.accuracy.checking.limits import FIND_LAYERS
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.accuracy.layers.constant_faults import other_constants
from qdqtool.accuracy.layers.layer import Layer
from qdqtool.accuracy.layers.masked_runs import MaskedRuns
from qdqtool.accuracy.layers.noise_ranking import (
    NoiseRanking,
    SearchBudget,
    blamed_layers,
    finite_db,
    rank_noise,
    sqnr_with,
)
from qdqtool.accuracy.layers.qdq_switches import QdqSwitches, add_switches
from qdqtool.accuracy.report import BlameReport, NoiseCause
from qdqtool.errors import QdqError
from qdqtool.models.diff.matching import match
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqIndex, QdqNode
from qdqtool.models.graph.index.view import GraphView, NodeView, Scope, Use, Value
from qdqtool.models.graph.scope import ScopePath
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.models.transforms.taps import Hop, Tap
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.feeds import Feeds, Progress

_ADDED_WORDS = ("_DequantizeLinear_Output", "_QuantizeLinear_Output", "_quantized", "_float", "_QuantizeInput")
"""Suffixes that this tool and ONNX Runtime's quantizer append to the name of a tensor that they quantize."""


class BaselineMatcher:
    """Finds the scopes, nodes and tensors of a baseline that correspond to those of a quantized model.

    Nodes are matched by structure first, as ``diff`` does. So a renamed tensor is found, and a name that moved to
    another tensor causes no wrong match. The other nodes are matched by name. Tools may rename the output of a
    quantized node, and a control-flow body is named after the output of its node. So an unknown name is tried again
    without the suffixes that tools append.
    """

    def __init__(self, baseline: GraphView, model: GraphView) -> None:
        self._scopes = {scope.path: scope for scope in baseline.scopes}
        self._nodes = {(node.scope.path, node.key): node for node in baseline.nodes()}
        self._segments = {segment for path in self._scopes for segment in path}
        self._callers = {node.key[0] for node in baseline.nodes() if node.key}
        pairs, scopes = match(baseline, model)
        self._matched: Mapping[NodeView, NodeView] = {after: before for before, after in pairs.items()}
        self._renamed = _renamed_outputs(scopes)
        self._renamed_calls = {
            after.key[0]: before.key[0] for before, after in pairs.items() if after.key and before.key
        }

    def of(self, qdq: QdqIndex, entry: QdqNode) -> Iterator[Value]:
        """Yield candidates: inputs of the matched consumers, the output of the matched producer, then matches by name.

        Matches by name are the baseline's tensor of the same name, the same input of the baseline's node with the same
        output names, and tensors named like the pair without the suffix of a tool.
        """
        readers = qdq.readers(entry) if entry.is_quantize else [entry]
        uses = [use for reader in readers for use in reader.uses]
        yield from (value for use in uses if (value := self._read_by_match(use)) is not None)
        made = self._made_by_match(entry.data)
        if made is not None:
            yield made
        here = self._scopes.get(self._path(entry.node.scope.path))
        if here is None:
            return
        if entry.is_quantize and entry.data is not None and entry.data.name in here.values:
            yield here.values[entry.data.name]
        yield from (value for use in uses if (value := self._read_by(use)) is not None)
        for name in _names(entry, readers):
            value = here.resolve(name)
            if value is not None:
                yield value

    def tap(self, tap: Tap) -> Tap:
        """Return the same place in the baseline."""
        return Tap(tap.output, tuple(self._hop(hop) for hop in tap.hops), tap.stacked)

    def _read_by_match(self, use: Use) -> Value | None:
        """Return the input with the same index of the node in the baseline that matches the consumer."""
        counterpart = self._matched.get(use.node)
        return counterpart.input(use.index) if counterpart is not None else None

    def _made_by_match(self, value: Value | None) -> Value | None:
        """Return the output with the same index of the node in the baseline that matches the producer."""
        if value is None or value.producer is None:
            return None
        counterpart = self._matched.get(value.producer)
        return counterpart.output(value.producer.key.index(value.name)) if counterpart is not None else None

    def _path(self, path: ScopePath) -> ScopePath:
        return path if path in self._scopes else tuple(self._segment(segment) for segment in path)

    def _hop(self, hop: Hop) -> Hop:
        """Translate one step of a path."""
        if not hop.is_call:
            return Hop(self._segment(hop.label))
        label = self._renamed_calls.get(hop.label, hop.label)
        return Hop(_first_known([label, *_plain(hop.label)], self._callers) or hop.label, is_call=True)

    def _segment(self, segment: str) -> str:
        """Translate a segment of a scope path, ``output.attribute``."""
        name, dot, attribute = segment.rpartition(".")
        plain = (f"{each}{dot}{attribute}" for each in _plain(name))
        known = [self._renamed[segment]] if segment in self._renamed else []
        return _first_known([*known, segment, *plain], self._segments) or segment

    def _read_by(self, use: Use) -> Value | None:
        """Return the input with the same index of the node in the baseline that has the same outputs."""
        path, key = self._path(use.node.scope.path), use.node.key
        counterpart = self._nodes.get((path, key))
        if counterpart is None:
            plain = tuple(next(_plain(name), name) for name in key)
            counterpart = self._nodes.get((path, plain))
        is_same = counterpart is not None and counterpart.op_type == use.node.op_type
        return counterpart.input(use.index) if counterpart is not None and is_same else None


def _renamed_outputs(scopes: Mapping[Scope, Scope]) -> dict[str, str]:
    """Map each segment of a scope path in the model to the segment of its counterpart."""
    pairs = ((before.path, after.path) for before, after in scopes.items())
    return {
        new: old for before, after in pairs if len(before) == len(after) for old, new in zip(before, after, strict=True)
    }


def _names(entry: QdqNode, readers: list[QdqNode]) -> Iterator[str]:
    outputs = [reader.output.name for reader in readers if reader.output is not None]
    for name in (*outputs, entry.data.name if entry.data is not None else ""):
        yield name
        yield from _plain(name)


def _first_known(names: Iterable[str], known: Collection[str]) -> str | None:
    return next((name for name in names if name in known), None)


def _plain(name: str) -> Iterator[str]:
    return (name.removesuffix(word) for word in _ADDED_WORDS if name.endswith(word))


NAMED, LEAST_SHARE, RUNS, SAMPLES = 5, 0.05, 40, 4
"""Largest number of layers that are named, smallest share of the noise that such a layer makes, largest number of runs,
and largest number of samples in a run."""


@dataclass(frozen=True, slots=True)
class BlameRequest:
    """A request to name layers.

    Attributes:
        always: Whether layers are named even if all gates on outputs hold.
        tick: Called after each run with the number of runs so far, and the largest number of runs.
        clipping: The share of values that a Q clips, for each Q that clips many.
        calibrator: The calibration method that the model records, if any.
    """

    always: bool = False
    tick: Progress | None = None
    clipping: Mapping[QdqNode, float] = field(default_factory=dict)
    calibrator: str = ""


def with_blame(
    report: CheckReport, index: ModelIndex, baseline: ModelIndex | None, feeds: Feeds, request: BlameRequest
) -> CheckReport:
    """Add to a report the layers that make most noise at the worst output, if requested or if a gate is missed."""
    missed = any(gate.name in FIND_LAYERS and not gate.passed for gate in report.gates)
    if baseline is None or not (missed or request.always):
        return report
    worst = report.worst_output.name if report.worst_output is not None else None
    try:
        blame = _blame(index, baseline, feeds, worst, request)
    except QdqError as error:
        blame = BlameReport(problem=error.message)
    return replace(report, blame=blame)


def _blame(
    index: ModelIndex, baseline: ModelIndex, feeds: Feeds, worst: str | None, request: BlameRequest
) -> BlameReport:
    counterparts = {after: before for before, after in match(baseline.view, index.view)[0].items()}
    weights = _float_weights(index, baseline)
    switches = add_switches(index, weights, tuple(other_constants(counterparts, index, baseline)))
    if not switches.layers:
        left = f": {switches.left_out[0]}" if switches.left_out else ""
        return BlameReport(problem=f"no pair can be switched{left}", left_out=switches.left_out)
    with MaskedRuns(switches, [dict(sample) for sample in feeds.first(SAMPLES)]) as runs:
        budget = SearchBudget(RUNS, max(LEAST_SHARE, min(1.5 / len(switches.layers), 0.5)), NAMED)
        found = rank_noise(switches.layers, runs, budget, worst, request.tick)
        if found is None:
            return BlameReport(problem="no float output can be compared", left_out=switches.left_out)
        ranking, layers = _renamed(found, switches.layers, counterparts)
        return BlameReport(
            output=found.output,
            whole_db=finite_db(found.whole_db),
            samples=len(runs.samples),
            runs=runs.runs,
            layers=blamed_layers(ranking, layers, baseline),
            rest_share=round(found.rest, 4),
            left_out=switches.left_out,
            float_db=_float_db(found.output, runs, baseline),
            causes=_causes(switches, runs, found.output, request.clipping),
            calibrator=request.calibrator,
        )


def _causes(
    switches: QdqSwitches, runs: MaskedRuns, output: str, clipping: Mapping[QdqNode, float]
) -> tuple[NoiseCause, ...]:
    """Measure the output with each part of the quantization undone, and with finer scales of weights."""
    clipped, coarse = "clipping activations", "per-tensor weights"
    parts: dict[str, list[int]] = {}
    for number, switch in enumerate(switches.switches):
        names = (switch.kind, clipped if switch.source in clipping else "", coarse if switch.per_channel else "")
        for name in filter(None, names):
            parts.setdefault(name, []).append(number)
    found = []
    for name, numbers in parts.items():
        runs.switches = switches.per_channel() if name == coarse else switches
        undone_db = sqnr_with(runs, output, {} if name == coarse else dict.fromkeys(numbers))
        sites = {switches.switches[number].source for number in numbers}
        share = max((share for entry, share in clipping.items() if name == clipped and entry in sites), default=0.0)
        found.append((undone_db, NoiseCause(name, len(sites), finite_db(undone_db), round(share, 6))))
    runs.switches = switches
    return tuple(cause for _, cause in sorted(found, key=lambda each: -each[0]))


def _float_weights(index: ModelIndex, baseline: ModelIndex) -> Callable[[QdqNode], Array | None]:
    matcher = BaselineMatcher(baseline.view, index.view)

    def weight(entry: QdqNode) -> Array | None:
        for candidate in matcher.of(index.qdq, entry):
            found = baseline.constants.readable(candidate) if baseline.is_constant(candidate) else None
            if found is not None and baseline.is_float(candidate):
                return found
        return None

    return weight


def _renamed(
    found: NoiseRanking, every: Iterable[Layer], counterparts: Mapping[NodeView, NodeView]
) -> tuple[NoiseRanking, tuple[Layer, ...]]:
    """Return the layers with the nodes of the float model, because options of ``quantize`` name those."""
    layers = {each: replace(each, nodes=tuple(counterparts.get(node, node) for node in each.nodes)) for each in every}
    ranked = tuple(replace(each, layer=layers[each.layer]) for each in found.layers)
    return replace(found, layers=ranked), tuple(layers.values())


def _float_db(output: str, runs: MaskedRuns, baseline: ModelIndex) -> float | None:
    """Return the SQNR of an output against the baseline, with all pairs off; None if the output is exact."""
    error = AccumulatedError()
    with open_session(baseline.model, plan_split(baseline)) as session:
        for number, sample in enumerate(runs.samples):
            error.add(session.run(sample, [output])[output], runs.expected(number)[output])
    decibels = error.sqnr_db
    return None if decibels is None or decibels == math.inf else round(decibels, 4)
