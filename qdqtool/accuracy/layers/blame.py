"""Find the layers that make most of the noise at the worst output, with few runs: by halving groups of layers.

Noise powers at the outputs about add up. So what a group of layers makes alone bounds what each of its members makes,
and the loudest group is cut in two until it is one layer. One half of each cut is run, and the other half is taken to
have the rest. A layer that is named was always run alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from qdqtool.accuracy.layers.effects import float_setting
from qdqtool.accuracy.layers.masked_model import Setting
from qdqtool.accuracy.layers.masked_runs import MaskedRuns, Switches
from qdqtool.accuracy.layers.output_noise import WORST_DB, OutputNoise
from qdqtool.accuracy.layers.units import Unit
from qdqtool.numerics.dtypes import Array

Tick = Callable[[int, int], None]
"""Called with the number of settings that were run, and the largest number that there can be."""

HALF = 0.5
"""A layer that makes more than this share makes more noise than all others together."""

HALF_DB = 10 * math.log10(1 / HALF)
"""By how much an output gains at least where such a layer stays in float, in dB."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a search goes.

    Attributes:
        runs: Settings that are run at most, beside a few with nearly all layers quantized.
        least: Share of the noise below which no layer is named, 0 to 1.
        most: Largest number of layers that are named.
    """

    runs: int
    least: float
    most: int


@dataclass(frozen=True, slots=True, eq=False)
class LoudUnit:
    """One layer that makes much of the noise.

    Attributes:
        unit: The layer.
        share: Its share of the noise that all layers make alone at the worst output, 0 to 1.
        alone_db: SQNR of that output with only this layer quantized.
        without_db: The same with only this layer in float, infinite without noise; None where it was not run, as the
            layer makes no more than :data:`HALF` of the noise.
    """

    unit: Unit
    share: float
    alone_db: float
    without_db: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Blame:
    """What makes the noise at the worst output.

    Attributes:
        output: The output.
        whole_db: Its SQNR with all layers quantized, on the samples that were run; infinite where it has no noise.
        loud: The layers that were found, the loudest first.
        rest: The largest share that a layer can have that is not among them, as far as noise adds up.
    """

    output: str
    whole_db: float
    loud: tuple[LoudUnit, ...]
    rest: float


def find_blame(
    units: Sequence[Unit], probe: "Probe", extent: Extent, output: str | None = None, tick: Tick | None = None
) -> Blame | None:
    """Find the layers that make most of the noise at the worst output.

    Args:
        units: The layers, in the order of the graph.
        probe: Runs them: each setting on all samples.
        extent: How far to search.
        output: The output; None for the one with the lowest SQNR where all layers are quantized.
        tick: Told of every run.

    Returns:
        What was found; None where no float output can be compared.
    """
    whole = probe.runs.noise({})
    worst = _worst(whole, probe.runs.outputs, output)
    if worst is None or not units:
        return None
    search = _Halving(probe, worst, extent, tick, [_Group(units, _level(whole, worst), was_run=True)])
    search.go()
    signal = float(whole.signal.sum(axis=0)[worst])
    named = search.named()
    rest = max((search.share(group) for group in search.known if group not in named), default=0.0)
    loud = tuple(search.loud_unit(group, signal) for group in named)
    return Blame(probe.runs.outputs[worst], _decibels(signal, _level(whole, worst)), loud, rest)


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A session with the switches of its model.

    Attributes:
        runs: The session and its samples.
        switches: The switches.
    """

    runs: MaskedRuns
    switches: Switches

    def alone(self, units: Sequence[Unit], output: int) -> float:
        """Return the noise at an output with only these layers quantized."""
        on = set(chain.from_iterable(unit.sites for unit in units))
        setting: Setting = {site: None for site in self.switches.all_float if site not in on}
        return _level(self.runs.noise(setting), output)

    def without(self, unit: Unit, output: int) -> float:
        """Return the noise at an output with only this layer in float."""
        return _level(self.runs.noise(float_setting([unit])), output)


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Layers that are next to each other, with the noise that they make alone, which is estimated unless it was run."""

    units: Sequence[Unit]
    noise: float
    was_run: bool


@dataclass(slots=True, eq=False)
class _Halving:
    probe: Probe
    output: int
    extent: Extent
    tick: Tick | None
    groups: list[_Group]
    found: list[_Group] = field(default_factory=list)
    spent: int = 0

    def go(self) -> None:
        """Cut the loudest group in two until enough layers are found."""
        while self.groups and self.spent < self.extent.runs and len(self.found) < self.extent.most:
            loudest = max(self.groups, key=lambda group: group.noise)
            if self.share(loudest) <= self.extent.least:
                return
            self.groups.remove(loudest)
            if len(loudest.units) > 1:
                self._cut(loudest)
            elif loudest.was_run:
                self.found.append(loudest)
            else:
                self.groups.append(self._run(loudest.units))

    @property
    def known(self) -> Sequence[_Group]:
        """All groups: each layer is in one of them."""
        return [*self.found, *self.groups]

    def named(self) -> Sequence[_Group]:
        """Return the layers to name, those included that were run while there was no time to ask for them."""
        single = [each for each in self.known if each.was_run and len(each.units) == 1]
        enough = [each for each in single if self.share(each) > self.extent.least]
        return sorted(enough, key=lambda each: -each.noise)[: self.extent.most]

    def loud_unit(self, group: _Group, signal: float) -> LoudUnit:
        unit, share = group.units[0], self.share(group)
        without = _decibels(signal, self.probe.without(unit, self.output)) if share > HALF else None
        return LoudUnit(unit, share, _decibels(signal, group.noise), without)

    def share(self, group: _Group) -> float:
        """Return the share of a group in the noise of all."""
        total = sum(each.noise for each in self.known)
        return group.noise / total if total else 0.0

    def _cut(self, group: _Group) -> None:
        middle = len(group.units) // 2
        first, rest = self._run(group.units[:middle]), group.units[middle:]
        # More than both together: here noise does not add up, so the difference tells nothing of the other half.
        estimate = group.noise - first.noise
        self.groups += [first, self._run(rest) if estimate < 0 else _Group(rest, estimate, was_run=False)]

    def _run(self, units: Sequence[Unit]) -> _Group:
        if self.tick is not None:
            self.tick(min(self.spent, self.extent.runs), self.extent.runs)
        self.spent += 1
        return _Group(units, self.probe.alone(units, self.output), was_run=True)


def _worst(whole: OutputNoise, names: Sequence[str], wanted: str | None) -> int | None:
    heard = np.flatnonzero(whole.signal.sum(axis=0) > 0)
    if wanted in names and names.index(wanted) in heard:
        return names.index(wanted)
    return int(heard[np.argmin(whole.sqnr_db()[heard])]) if heard.size else None


def _level(noise: OutputNoise, output: int) -> float:
    """Return the noise of an output over all samples; a bound where values became NaN or infinite."""
    found: Array = noise.noise[:, output]
    return float(min(found.sum(), noise.signal[:, output].sum() * 10 ** (WORST_DB / 10)))


def _decibels(signal: float, noise: float) -> float:
    return float(10 * np.log10(signal / noise)) if noise else float("inf")
