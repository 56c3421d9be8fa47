"""How much faster one engine is than another, and whether that meets the gate."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from qdqtool.engines.gpu.comparison import LayerComparison, LayerGroup
from qdqtool.engines.gpu.speedup_gate import SpeedupGate
from qdqtool.engines.gpu.timing import MeasuredEngine

_DRIFT = 0.05
"""A difference of clocks that is told: times are about inversely proportional to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """How many times as fast an engine is as another.

    Attributes:
        ratio: The other's median time divided by its own, over all rounds.
        lowest: The lowest of the ratios of the rounds.
        highest: The highest of them.
    """

    ratio: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupResult:
    """The result of the gate ``--speedup``.

    Attributes:
        gate: The gate as the user writes it.
        passed: Whether it was met.
        found: What was found, in words.
        slower_layers: Where it was missed, the layers that are slower than in the other engine, worst first.
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
    """Return whether a speedup meets a gate and, where it does not, the layers that are slower."""
    passed = speedup.ratio >= gate.ratio
    return SpeedupResult(
        gate=str(gate),
        passed=passed,
        found=f"{speedup.ratio:.3f}x",
        slower_layers=() if passed or comparison is None else comparison.slower,
    )


def clock_warning(measured: Sequence[MeasuredEngine]) -> str | None:
    """Return a warning where the clocks of two engines differ so much that their times cannot be compared."""
    clocks = [median(clock.sm for clock in each.clocks) for each in measured if each.clocks]
    if len(clocks) < 2 or max(clocks) <= min(clocks) * (1 + _DRIFT):
        return None
    listed = " and ".join(f"{clock:.0f} MHz" for clock in clocks)
    return f"the GPU ran at {listed}: a part of the difference may be that of the clocks"
