"""Compare the times and kernels of two engines that compute one model, and judge the speedup."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from qdqtool.engines.gpu.runner import LayerTime, Runner
from qdqtool.engines.gpu.speedup_gate import SpeedupGate
from qdqtool.engines.gpu.timing import MeasuredEngine
from qdqtool.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """Layers of two engines that compute the same part of the model.

    Attributes:
        nodes: Names of the ONNX nodes that both engines compute in these layers; empty if only the names of layers
            agree.
        layers: Layers of the engine.
        against_layers: Layers of the other engine.
        milliseconds: Time of ``layers``.
        against_milliseconds: Time of ``against_layers``.
    """

    nodes: tuple[str, ...]
    layers: tuple[str, ...]
    against_layers: tuple[str, ...]
    milliseconds: float
    against_milliseconds: float

    @property
    def loss(self) -> float:
        """Milliseconds by which the engine is slower in these layers; negative if it is faster."""
        return self.milliseconds - self.against_milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerComparison:
    """The layers of two engines.

    Attributes:
        groups: Layers that have a counterpart in the other engine; the layers that lose most time come first.
        unmatched: Layers of the engine without a counterpart, slowest first.
        against_unmatched: Layers of the other engine without a counterpart, slowest first.
    """

    groups: tuple[LayerGroup, ...]
    unmatched: tuple[LayerTime, ...]
    against_unmatched: tuple[LayerTime, ...]

    @property
    def slower(self) -> tuple[LayerGroup, ...]:
        """The groups in which the engine is slower."""
        return tuple(group for group in self.groups if group.loss > 0)


def compare_layers(layers: Sequence[LayerTime], against: Sequence[LayerTime]) -> LayerComparison:
    """Group the layers of two engines.

    Fusions differ: a float engine may have one layer for Conv and Relu, and an int8 engine two. So layers of both
    engines that share ONNX nodes, directly or through other layers, form a group. Q and DQ nodes do not count, because
    a float engine lacks them. A layer without known nodes is matched by its name.
    """
    common = _keys(layers) & _keys(against)
    groups = [_group(mine, theirs) for mine, theirs in _components(layers, against, common)]
    return LayerComparison(
        groups=tuple(sorted(groups, key=lambda group: -group.loss)),
        unmatched=_without(layers, common),
        against_unmatched=_without(against, common),
    )


def _key(layer: LayerTime) -> set[Hashable]:
    return set(layer.nodes) or {("layer", layer.name)}


def _keys(layers: Sequence[LayerTime]) -> set[Hashable]:
    return set[Hashable]().union(*map(_key, layers))


def _without(layers: Sequence[LayerTime], common: set[Hashable]) -> tuple[LayerTime, ...]:
    rest = (layer for layer in layers if not _key(layer) & common)
    return tuple(sorted(rest, key=lambda layer: -layer.milliseconds))


def _components(
    layers: Sequence[LayerTime], against: Sequence[LayerTime], common: set[Hashable]
) -> Iterator[tuple[list[LayerTime], list[LayerTime]]]:
    """Yield the layers of both engines that are connected by ``common`` keys."""
    parts: list[tuple[set[Hashable], list[LayerTime], list[LayerTime]]] = []
    for place, layer in (*((0, each) for each in layers), *((1, each) for each in against)):
        shared = _key(layer) & common
        if not shared:
            continue
        joined = [part for part in parts if part[0] & shared]
        parts = [part for part in parts if not part[0] & shared]
        sides = ([each for part in joined for each in part[1]], [each for part in joined for each in part[2]])
        sides[place].append(layer)
        parts.append((shared.union(*(part[0] for part in joined)), *sides))
    yield from ((mine, theirs) for _, mine, theirs in parts)


def _group(mine: Sequence[LayerTime], theirs: Sequence[LayerTime]) -> LayerGroup:
    there = {node for layer in theirs for node in layer.nodes}
    nodes = dict.fromkeys(node for layer in mine for node in layer.nodes if node in there)
    return LayerGroup(
        nodes=tuple(nodes),
        layers=tuple(layer.name for layer in mine),
        against_layers=tuple(layer.name for layer in theirs),
        milliseconds=sum(layer.milliseconds for layer in mine),
        against_milliseconds=sum(layer.milliseconds for layer in theirs),
    )


def require_comparable(engine: Runner, against: Runner) -> None:
    """Check that two engines were made from the same network.

    Raises:
        UsageError: The engines have different names or ranks of inputs or outputs, or were timed with different clocks.
    """
    _require_same("inputs", _described(engine), _described(against))
    _require_same("outputs", sorted(engine.outputs), sorted(against.outputs))
    if engine.clock != against.clock:
        raise UsageError(
            "an ONNX model and an engine cannot be compared: only the times of the ONNX model include copies",
            hint="build both, or give both as ONNX models",
        )


def require_order(planned: dict[str, int] | None, against: dict[str, int] | None) -> None:
    """Refuse a float engine if the engine of ``--against`` is quantized.

    Args:
        planned: The number of nodes planned for each quantized type, from the manifest; None without a manifest.
        against: The same numbers for the engine of ``--against``.

    Raises:
        UsageError: The two engines were mixed up: a gate would require the float engine to be faster.
    """
    if planned is not None and not planned and against:
        raise UsageError(
            "ENGINE is a float engine, and --against is a quantized one: the order is wrong",
            hint="name the quantized engine first, and the float one with --against",
        )


def _described(runner: Runner) -> list[str]:
    ranks = {spec.name: "?" if spec.shape is None else len(spec.shape) for spec in runner.inputs}
    return sorted(f"{name} (rank {rank})" for name, rank in ranks.items())


def _require_same(what: str, mine: Sequence[str], theirs: Sequence[str]) -> None:
    if mine != theirs:
        raise UsageError(
            f"the two engines have different {what}: {', '.join(mine)} against {', '.join(theirs)}",
            hint="--against must be built from the float model that was quantized",
        )


_DRIFT = 0.05
"""Smallest relative difference of clocks that is reported: times are about inversely proportional to clocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """How many times as fast an engine is compared with another engine.

    Attributes:
        ratio: The median time of the other engine divided by the median time of this engine, over all rounds.
        lowest: The lowest ratio of a round.
        highest: The highest ratio of a round.
    """

    ratio: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupResult:
    """The result of the gate ``--speedup``.

    Attributes:
        gate: The gate in the user's notation.
        passed: Whether it was met.
        found: The found speedup, in words.
        slower_layers: If the gate was missed, the layers that are slower than in the other engine, worst first.
    """

    gate: str
    passed: bool
    found: str
    slower_layers: tuple[LayerGroup, ...]


def speedup_of(engine: MeasuredEngine, against: MeasuredEngine) -> Speedup:
    """Return how many times as fast ``engine`` is as ``against``; both were timed in the same rounds."""
    pairs = zip(engine.rounds, against.rounds, strict=True)
    ratios = [median(theirs) / median(own) for own, theirs in pairs]
    whole = against.percentiles().p50 / engine.percentiles().p50
    return Speedup(ratio=whole, lowest=min(ratios), highest=max(ratios))


def judge(gate: SpeedupGate, speedup: Speedup, comparison: LayerComparison | None) -> SpeedupResult:
    """Return whether a speedup meets a gate and, if not, the slower layers."""
    passed = speedup.ratio >= gate.ratio
    return SpeedupResult(
        gate=str(gate),
        passed=passed,
        found=f"{speedup.ratio:.3f}x",
        slower_layers=() if passed or comparison is None else comparison.slower,
    )


def clock_warning(measured: Sequence[MeasuredEngine]) -> str | None:
    """Return a warning if the clocks of two engines differ so much that their times cannot be compared."""
    clocks = [median(clock.sm for clock in each.clocks) for each in measured if each.clocks]
    if len(clocks) < 2 or max(clocks) <= min(clocks) * (1 + _DRIFT):
        return None
    listed = " and ".join(f"{clock:.0f} MHz" for clock in clocks)
    return f"the GPU ran at {listed}: a part of the difference may come from the clocks"
