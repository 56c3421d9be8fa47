"""Find the layers that make most of the noise at the worst output, with few runs: by halving groups of layers.

Noise powers at the outputs approximately add up, so the noise of a group of layers bounds the noise of each member. The
noisiest group is cut in two until it is one layer. One half is run, and the other half is assumed to make the rest of
the noise. Every layer that is named was run alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from qdqtool.accuracy.layers.layer import Layer, excluding_patterns, size_shares
from qdqtool.accuracy.layers.masked_model import Setting
from qdqtool.accuracy.layers.masked_runs import MaskedRuns, float_setting, only_setting
from qdqtool.accuracy.report import BlamedLayer
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.scope import display
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.noise import WORST_DB, Noise, decibels

Tick = Callable[[int, int], None]
"""Called with the number of settings that were run, and the largest possible number."""

HALF = 0.5
"""A layer that makes more than this share makes more noise than all others together."""

HALF_DB = float(decibels(1, HALF))
"""The smallest gain of an output, in dB, if such a layer stays in float."""


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """The limits of a search.

    Attributes:
        runs: Largest number of settings that are run, besides a few with nearly all layers quantized.
        least: Share of the noise below which no layer is named, 0 to 1.
        most: Largest number of layers that are named.
    """

    runs: int
    least: float
    most: int


@dataclass(frozen=True, slots=True, eq=False)
class RankedLayer:
    """One layer that makes much of the noise.

    Attributes:
        layer: The layer.
        share: Its share, 0 to 1, in the sum of the noise that each layer alone makes at the worst output.
        alone_db: SQNR of that output with only this layer quantized.
        without_db: The same with only this layer in float, infinite without noise. None if the layer makes at most
            :data:`HALF` of the noise: then it was not run.
    """

    layer: Layer
    share: float
    alone_db: float
    without_db: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class NoiseRanking:
    """The layers that make the noise at the worst output.

    Attributes:
        output: The output.
        whole_db: Its SQNR with all layers quantized, on the samples that were run; infinite if it has no noise.
        layers: The layers that were found, noisiest first.
        rest: The largest share that a layer not in ``layers`` can have, if noise adds up.
    """

    output: str
    whole_db: float
    layers: tuple[RankedLayer, ...]
    rest: float


def rank_noise(
    layers: Sequence[Layer], runs: MaskedRuns, budget: SearchBudget, output: str | None = None, tick: Tick | None = None
) -> NoiseRanking | None:
    """Find the layers that make most of the noise at the worst output.

    Args:
        layers: The layers, in the order of the graph.
        runs: The session; each setting is run on all samples.
        budget: The limits of the search.
        output: The output; None for the output with the lowest SQNR when all layers are quantized.
        tick: Called for each run, with the number of runs so far and the largest possible number.

    Returns:
        The ranking, or None if no float output can be compared.
    """
    whole = runs.noise({})
    worst = _worst(whole, runs.outputs, output)
    if worst is None or not layers:
        return None
    search = _Halving(runs, worst, budget, tick, [_Group(layers, _level(whole, worst), was_run=True)])
    search.go()
    signal = float(whole.signal.sum(axis=0)[worst])
    named = search.named()
    rest = max((search.share(group) for group in search.known if group not in named), default=0.0)
    ranked = tuple(search.ranked(group, signal) for group in named)
    return NoiseRanking(runs.outputs[worst], float(decibels(signal, _level(whole, worst))), ranked, rest)


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Adjacent layers, with the noise of this group alone, which is estimated unless the group was run."""

    layers: Sequence[Layer]
    noise: float
    was_run: bool


@dataclass(slots=True, eq=False)
class _Halving:
    runs: MaskedRuns
    output: int
    budget: SearchBudget
    tick: Tick | None
    groups: list[_Group]
    found: list[_Group] = field(default_factory=list)
    spent: int = 0

    def go(self) -> None:
        """Cut the noisiest group in two until enough layers are found."""
        while self.groups and self.spent < self.budget.runs and len(self.found) < self.budget.most:
            noisiest = max(self.groups, key=lambda group: group.noise)
            if self.share(noisiest) <= self.budget.least:
                return
            self.groups.remove(noisiest)
            if len(noisiest.layers) > 1:
                self._cut(noisiest)
            elif noisiest.was_run:
                self.found.append(noisiest)
            else:
                self.groups.append(self._run(noisiest.layers))

    @property
    def known(self) -> Sequence[_Group]:
        """All groups; every layer is in exactly one group."""
        return [*self.found, *self.groups]

    def named(self) -> Sequence[_Group]:
        """Return the layers to name: every group of one layer that was run, even if the search ended early."""
        single = [each for each in self.known if each.was_run and len(each.layers) == 1]
        enough = [each for each in single if self.share(each) > self.budget.least]
        return sorted(enough, key=lambda each: -each.noise)[: self.budget.most]

    def ranked(self, group: _Group, signal: float) -> RankedLayer:
        layer, share = group.layers[0], self.share(group)
        without = float(decibels(signal, self._noise(float_setting([layer])))) if share > HALF else None
        return RankedLayer(layer, share, float(decibels(signal, group.noise)), without)

    def share(self, group: _Group) -> float:
        total = sum(each.noise for each in self.known)
        return group.noise / total if total else 0.0

    def _cut(self, group: _Group) -> None:
        middle = len(group.layers) // 2
        first, rest = self._run(group.layers[:middle]), group.layers[middle:]
        # One half makes more noise than both: here noise does not add up, so the difference is no estimate.
        estimate = group.noise - first.noise
        self.groups += [first, self._run(rest) if estimate < 0 else _Group(rest, estimate, was_run=False)]

    def _run(self, layers: Sequence[Layer]) -> _Group:
        if self.tick is not None:
            self.tick(min(self.spent, self.budget.runs), self.budget.runs)
        self.spent += 1
        return _Group(layers, self._noise(only_setting(layers, self.runs.switches)), was_run=True)

    def _noise(self, setting: Setting) -> float:
        return _level(self.runs.noise(setting), self.output)


def sqnr_with(runs: MaskedRuns, output: str, setting: Setting) -> float:
    """Return the SQNR of an output in dB with some pairs switched; infinite where it has no noise."""
    noise, number = runs.noise(setting), runs.outputs.index(output)
    return float(decibels(float(noise.signal.sum(axis=0)[number]), _level(noise, number)))


def _worst(whole: Noise, names: Sequence[str], wanted: str | None) -> int | None:
    active = np.flatnonzero(whole.active)
    if wanted in names and names.index(wanted) in active:
        return names.index(wanted)
    return int(active[np.argmin(whole.sqnr_db()[active])]) if active.size else None


def _level(noise: Noise, output: int) -> float:
    """Return the noise of an output over all samples, bounded if NaN or infinite values make it infinite."""
    found: Array = noise.noise[:, output]
    return float(min(found.sum(), noise.signal[:, output].sum() * 10 ** (WORST_DB / 10)))


def blamed_layers(ranking: NoiseRanking, layers: Sequence[Layer], index: ModelIndex) -> tuple[BlamedLayer, ...]:
    """Return a report entry for each layer of the ranking."""
    sizes, patterns = size_shares(layers, index), excluding_patterns(layers, index)
    return tuple(
        BlamedLayer(
            node=found.layer.leader.label,
            op_type=found.layer.leader.op_type,
            graph=display(found.layer.leader.scope.path),
            nodes=tuple(node.label for node in found.layer.nodes),
            noise_share=round(found.share, 4),
            alone_db=finite_db(found.alone_db),
            without_db=None if found.without_db is None else finite_db(found.without_db),
            dominant=found.without_db is not None and found.without_db - ranking.whole_db > HALF_DB,
            macs_share=round(sizes[found.layer][0], 6),
            weights_share=round(sizes[found.layer][1], 6),
            exclude=patterns[found.layer],
        )
        for found in ranking.layers
    )


def finite_db(decibels: float) -> float | None:
    """Return a rounded value in dB for reports, or None if there is no noise."""
    return None if decibels == math.inf else round(decibels, 4)
