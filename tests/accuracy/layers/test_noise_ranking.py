"""The search for the noisiest layers, against a session whose noise is written down, and against every layer alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.layered import MAX, chain, planned, rows, save

from qdqtool.accuracy.layers.layer import Layer
from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.masked_runs import only_setting
from qdqtool.accuracy.layers.noise_ranking import SearchBudget, rank_noise
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.plan import QuantPlan
from qdqtool.numerics.noise import Noise

SIGNAL = 1e4
ALL = SearchBudget(10_000, 0.0, 10_000)


class Session:
    """A session of layers with one site each, whose noise adds up; ``extra`` comes with sites that are on together."""

    def __init__(self, noise: Sequence[Sequence[float]], extra: Mapping[frozenset[int], float] | None = None) -> None:
        self.noises = np.array(noise, float)
        self.extra = extra or {}
        self.asked: list[frozenset[int]] = []
        self.outputs = [f"y{at}" for at in range(self.noises.shape[1])]
        self.all_float = dict.fromkeys(range(len(noise)))
        self.layers = [Layer((_named(at),), (at,)) for at in range(len(noise))]

    def noise(self, setting: Mapping[int, None]) -> Noise:
        on = frozenset(self.all_float) - set(setting)
        self.asked.append(on)
        more = sum(value for together, value in self.extra.items() if together <= on)
        return Noise(np.full((1, len(self.outputs)), SIGNAL), self.noises[sorted(on)].sum(axis=0)[None] + more)

    @property
    def switches(self) -> "Session":
        return self

    def find(self, budget: SearchBudget, output: str | None = None):
        return rank_noise(self.layers, self, budget, output)  # type: ignore[arg-type]


def _named(number: int) -> NodeView:
    return SimpleNamespace(label=str(number), domain="", op_type="Relu")  # type: ignore[return-value]


def labels(found) -> list[int]:
    return [int(each.layer.leader.label) for each in found.layers]


@pytest.mark.parametrize("seed", range(20))
def test_where_noise_adds_up_the_first_ones_are_the_loudest_with_their_shares(seed: int):
    random = np.random.default_rng(seed)
    noise = random.lognormal(0, 2, (int(random.integers(1, 40)), 1))
    found = Session(noise).find(SearchBudget(1000, 0.05, 3))
    order = np.argsort(-noise[:, 0])
    expected = [at for at in order[:3] if noise[at, 0] > 0.05 * noise.sum()]
    assert labels(found) == expected
    assert [each.share for each in found.layers] == pytest.approx([noise[at, 0] / noise.sum() for at in expected])
    assert [each.alone_db for each in found.layers] == pytest.approx(
        [10 * math.log10(SIGNAL / noise[at, 0]) for at in expected]
    )


@pytest.mark.parametrize("seed", range(20))
def test_no_layer_that_is_not_named_has_more_than_the_rest(seed: int):
    random = np.random.default_rng(seed)
    noise = random.lognormal(0, 1, (30, 1))
    for runs in (1, 3, 7, 20):
        found = Session(noise).find(SearchBudget(runs, 0.1, 3))
        others = [noise[at, 0] / noise.sum() for at in range(30) if at not in labels(found)]
        assert max(others) <= found.rest + 1e-9


def test_one_loud_layer_of_many_takes_two_runs_for_each_halving_at_most():
    noise = [[1.0]] * 64
    noise[37] = [1000.0]
    session = Session(noise)
    found = session.find(SearchBudget(100, 0.5, 1))
    assert labels(found) == [37]
    # All; six halvings, the last one estimated and run; without it.
    assert len(session.asked) <= 1 + 7 + 1
    without = 10 * math.log10(SIGNAL / 63)
    assert found.layers[0].without_db == pytest.approx(without)
    assert session.asked[-1] == frozenset(range(64)) - {37}


def test_even_noise_names_nobody_and_takes_few_runs():
    session = Session([[1.0]] * 64)
    found = session.find(SearchBudget(100, 0.5, 1))
    assert found.layers == ()
    assert found.rest == pytest.approx(0.5)
    assert len(session.asked) == 2


def test_a_layer_with_less_than_half_is_not_run_without():
    found = Session([[4.0], [3.0], [2.0], [1.0]]).find(ALL)
    assert labels(found) == [0, 1, 2, 3]
    assert {each.without_db for each in found.layers} == {None}


def test_the_worst_output_is_judged_or_the_one_that_is_named():
    noise = [[1.0, 9.0], [8.0, 1.0], [0.5, 0.1]]
    assert (labels(Session(noise).find(SearchBudget(9, 0.4, 1))), Session(noise).find(ALL).output) == ([0], "y1")
    assert labels(Session(noise).find(SearchBudget(9, 0.4, 1), "y0")) == [1]
    assert Session(noise).find(ALL, "not an output").output == "y1"


def test_where_one_half_makes_more_than_both_the_other_half_is_run_too():
    # The errors of 0 cancel against those of 3, which makes the most of all alone.
    session = Session([[8.0], [1.0], [1.0], [20.0]], {frozenset({0, 3}): -25.0})
    found = session.find(ALL)
    assert labels(found)[0] == 3
    assert frozenset({2, 3}) in session.asked


def test_values_that_become_infinite_are_louder_than_all_others_and_give_no_nan():
    found = Session([[1.0], [np.inf], [1.0]]).find(SearchBudget(50, 0.1, 3))
    assert labels(found) == [1]
    assert found.layers[0].share == pytest.approx(1)
    assert found.whole_db == pytest.approx(-300)


def test_without_noise_or_without_an_output_nothing_is_named():
    quiet = Session([[0.0], [0.0]]).find(SearchBudget(50, 0.1, 3))
    assert (quiet.layers, quiet.whole_db, quiet.rest) == ((), math.inf, 0.0)
    silent = Session([[1.0], [1.0]])
    silent.noise = lambda _: Noise(np.zeros((1, 1)), np.ones((1, 1)))  # type: ignore[method-assign]
    assert silent.find(ALL) is None


def test_every_run_is_told_and_counted():
    told: list[tuple[int, int]] = []
    session = Session([[float(at)] for at in range(1, 17)])
    rank_noise(session.layers, session, SearchBudget(5, 0.0, 9), None, lambda *at: told.append(at))
    assert told == [(done, 5) for done in range(5)]


@pytest.mark.parametrize("loud", [0, 2, 4])
def test_on_a_real_session_it_is_the_layer_that_is_loudest_alone(tmp_path: Path, loud: int):
    save(tmp_path, chain(5), rows())
    with planned(tmp_path, MAX) as made:
        index = made.index
        name = [node.label for node in index.view.nodes() if node.op_type in {"Gemm", "MatMul", "Conv"}][loud]
        plan = QuantPlan(tuple(_coarse(each, index, name) for each in made.plan))
        with LayerRuns.of(made.ready, plan, made.prepared, made.choosing, 2) as session:
            found = rank_noise(session.layers, session.runs, SearchBudget(20, 0.1, 1))
            signal = session.runs.noise({}).signal.sum(axis=0)[0]
            alone = {
                layer: session.runs.noise(only_setting([layer], session.masked)).noise.sum(axis=0)[0]
                for layer in session.layers
            }
    best = max(alone, key=lambda layer: alone[layer])
    assert best.leader.label == name
    assert found.layers[0].layer is best
    # Noise of so few values does not quite add up: the share is an estimate, what the layer makes alone is not.
    assert found.layers[0].share > 0.5
    assert found.layers[0].alone_db == pytest.approx(10 * np.log10(signal / alone[best]), rel=1e-9)


def _coarse(placement, index, name: str):
    """The placement with a scale 20 times as large where it is that of a weight of the named node."""
    value = index.value(placement.slot)
    if not index.is_constant(value) or name not in {use.node.label for use in value.uses}:
        return placement
    params = placement.params
    return replace(placement, params=replace(params, scale=params.scale * np.float32(20)))
