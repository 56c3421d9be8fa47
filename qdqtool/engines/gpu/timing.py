"""Time engines in turn, so that drifting clocks change the times of all engines equally."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from qdqtool.engines.gpu.clocks import ClockMeter, Clocks
from qdqtool.engines.gpu.runner import Runner
from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.feeds import Feeds, Progress
from qdqtool.samples.random_values import SMALL_INTEGERS, RandomSamples
from qdqtool.samples.report import DataDescription
from qdqtool.samples.signature import InputSpec

SEED = 0


def random_sample(specs: Sequence[InputSpec]) -> Feeds:
    """Return one sample: standard normal floats, and integers from 0 to 9."""
    shapes = {spec.name: tuple(extent for extent in spec.shape or () if isinstance(extent, int)) for spec in specs}
    samples = RandomSamples(tuple(specs), dict.fromkeys(shapes, SMALL_INTEGERS), {}, SEED, 1)
    return Feeds(samples, DataDescription("random", 1, SEED, shapes))


_FEWEST_FOR_P99 = 100
"""With fewer times the 99th percentile is almost the largest time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingOptions:
    """How engines are timed.

    Attributes:
        rounds: Number of rounds; every engine is timed in each round.
        runs: Number of timed inferences of an engine in a round.
        warm_up: Number of untimed inferences before the timed ones.
        profiled: Number of inferences with a profiler after all rounds; the time of a layer is its mean over them.
    """

    rounds: int = 10
    runs: int = 50
    warm_up: int = 20
    profiled: int = 20

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("runs", 1), ("warm_up", 0), ("profiled", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least {least}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """The times of one engine, in milliseconds.

    Attributes:
        count: Number of inferences that were measured.
        p50: The median: half of the inferences take less time.
        p90: 90 % of the inferences take less time.
        p99: 99 % of the inferences take less time; None for fewer than 100 inferences.
        mean: The mean time.
        min: The shortest time.
        max: The longest time.
    """

    count: int
    p50: float
    p90: float
    p99: float | None
    mean: float
    min: float
    max: float


@dataclass(slots=True)
class MeasuredEngine:
    """The measured times and clocks of one engine.

    Attributes:
        rounds: The times of each round, in milliseconds.
        clocks: The clocks right after each round; empty if they are unknown.
    """

    rounds: list[list[float]] = field(default_factory=list)
    clocks: list[Clocks] = field(default_factory=list)

    def percentiles(self) -> Percentiles:
        """Return the percentiles over all rounds; between two times they are interpolated linearly."""
        times = np.array(list(chain.from_iterable(self.rounds)))
        p50, p90, p99 = (float(value) for value in np.percentile(times, [50, 90, 99]))
        return Percentiles(
            count=len(times),
            p50=p50,
            p90=p90,
            p99=p99 if len(times) >= _FEWEST_FOR_P99 else None,
            mean=float(times.mean()),
            min=float(times.min()),
            max=float(times.max()),
        )


def time_in_turn(
    runners: Sequence[tuple[Runner, Mapping[str, Array]]],
    options: TimingOptions,
    meter: ClockMeter,
    progress: Progress | None = None,
) -> list[MeasuredEngine]:
    """Time engines in turn: each once in every round, in reverse order in every second round.

    Returns:
        The measurements of each engine, in the order of ``runners``.
    """
    measured = [MeasuredEngine() for _ in runners]
    turns = options.rounds * len(runners)
    for number in range(options.rounds):
        order = range(len(runners)) if number % 2 == 0 else reversed(range(len(runners)))
        for place, index in enumerate(order):
            runner, sample = runners[index]
            measured[index].rounds.append(runner.time(sample, warm_up=options.warm_up, runs=options.runs))
            clocks = meter.read()
            if clocks is not None:
                measured[index].clocks.append(clocks)
            if progress is not None:
                progress(number * len(runners) + place + 1, turns)
    return measured
