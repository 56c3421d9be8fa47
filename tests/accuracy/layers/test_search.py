"""The search against brute force: every subset of the layers of small networks, and ONNX Runtime on the result."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain as chained
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from accuracy.layers.test_layer import attention, residual, turned_weights
from support.layered import Planned, chain, dividing, outputs, planned, rows, save, sqnr

from qdqtool.accuracy.layers.fallback import Fallback
from qdqtool.accuracy.layers.layer import Layer, by_reader
from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.prediction import SearchState
from qdqtool.accuracy.layers.search import CURVE_STEP_DB, MOST_IN_FLOAT, TRIED, FloatSearch
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.numerics.noise import WORST_DB, Noise

Subset = frozenset[Layer]

NETWORKS = {
    "chain of 4": (lambda: chain(4, uneven=100), (4, 16)),
    "chain of 6": (lambda: chain(6, uneven=5), (4, 16)),
    "chain of 8": (lambda: chain(8), (4, 16)),
    "residual": (residual, (1, 16, 4, 4)),
    "attention": (attention, (16, 16)),
    "turned weights": (turned_weights, (4, 16)),
}
GOALS = (0.05, 0.3, 0.6, 0.95)
"""From what is kept with every layer quantized (0) to the most that a model with one quantized layer keeps (1)."""
WITHIN = 1.34
"""The cost of what is found in that of the cheapest subset. Most are equal."""


@pytest.fixture(params=NETWORKS, scope="module")
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    make, shape = NETWORKS[request.param]
    folder = tmp_path_factory.mktemp("network")
    save(folder, make(), rows(shape))
    with planned(folder) as made, opened(made) as session:
        yield made, session, brute_force(session)


def opened(made: Planned) -> LayerRuns:
    return LayerRuns.of(made.ready, made.plan, made.prepared, made.choosing)


def brute_force(session: LayerRuns) -> Mapping[Subset, float]:
    """The SQNR of the worst output for each subset of the layers in float."""
    subsets = chained.from_iterable(combinations(session.layers, count) for count in range(len(session.layers) + 1))
    return {
        frozenset(subset): session.worst_db(dict.fromkeys(site for layer in subset for site in layer.sites))
        for subset in subsets
    }


def search(session: LayerRuns, runs: int | None = None) -> FloatSearch:
    """A search that knows nothing of what others measured before in the session."""
    made = session.search()
    made.cache = {}
    made.limit = made.limit if runs is None else runs
    return made


def cost(session: LayerRuns, layers: Sequence[Layer] | Subset) -> float:
    shares = dict(zip(session.layers, session.shares, strict=True))
    return math.fsum(shares[layer] for layer in layers)


def goals(exact: Mapping[Subset, float]) -> Iterator[float]:
    low, high = exact[frozenset()], max(value for value in exact.values() if value < math.inf)
    return (low + part * (high - low) for part in GOALS)


def test_a_goal_is_reached_at_about_the_least_cost_and_no_layer_is_left_over(network):
    _, session, exact = network
    for goal in goals(exact):
        found = search(session).reach(goal)
        assert found.shortfall_db == 0
        assert found.worst_db == exact[frozenset(found.layers)] >= goal
        least = min(cost(session, subset) for subset, value in exact.items() if value >= goal)
        assert found.share == pytest.approx(cost(session, found.layers), rel=1e-12)
        assert least <= found.share * (1 + 1e-12)
        assert found.share <= WITHIN * least
        for layer in found.layers:
            assert exact[frozenset(found.layers) - {layer}] < goal, "each layer is needed"


def test_most_goals_get_the_cheapest_subset(network):
    _, session, exact = network
    best = 0
    for goal in goals(exact):
        least = min(cost(session, subset) for subset, value in exact.items() if value >= goal)
        best += search(session).reach(goal).share <= least * (1 + 1e-9)
    assert best >= len(GOALS) - 1


def test_onnxruntime_confirms_the_model_that_was_found(network):
    made, session, exact = network
    goal = [*goals(exact)][2]
    found = search(session).reach(goal)
    off = {site for layer in found.layers for site in layer.sites}
    divided = by_reader(made.plan, made.index)
    plan = QuantPlan(tuple(each for number, each in enumerate(divided) if number not in off))
    kept = sqnr(outputs(made.ready.proto, session.runs.samples), outputs(made.applied(plan), session.runs.samples))
    assert min(kept) == pytest.approx(found.worst_db, abs=1e-5)
    assert min(kept) > goal - 1e-5


def test_layers_are_in_the_order_of_the_graph_and_steps_end_with_what_was_found(network):
    _, session, exact = network
    made = search(session)
    found = made.reach([*goals(exact)][2])
    assert found.layers == tuple(layer for layer in session.layers if layer in found.layers)
    assert made.steps[0].layers == ()
    assert made.steps[-1] == found
    for step in made.steps:
        assert step.worst_db == exact[frozenset(step.layers)]
    frontier = made.frontier()
    assert [step.share for step in frontier] == sorted(step.share for step in frontier)
    assert [step.worst_db for step in frontier] == sorted({step.worst_db for step in frontier})
    for step in made.steps:
        if len(step.layers) < len(session.layers):
            assert any(each.share <= step.share and each.worst_db >= step.worst_db for each in frontier)


def test_a_goal_that_is_kept_already_needs_nothing_in_float(network):
    _, session, exact = network
    made = search(session)
    found = made.reach(exact[frozenset()] - 0.01)
    assert (found.layers, found.share, found.shortfall_db) == ((), 0, 0)
    assert made.spent == len(session.runs.samples)


def test_a_goal_that_no_model_keeps_ends_with_every_layer_in_float_and_tells_the_best(network):
    _, session, exact = network
    made = search(session, 10**6)
    found = made.reach(400.0)
    assert set(found.layers) == set(session.layers)
    assert found.worst_db == math.inf
    assert made.frontier()[-1].worst_db == max(
        value for subset, value in exact.items() if len(subset) < len(session.layers)
    )


def test_the_same_search_finds_the_same_twice(network):
    _, session, exact = network
    goal = [*goals(exact)][3]
    one, two = search(session), search(session)
    found = one.reach(goal)
    assert two.reach(goal) == found
    assert one.steps == two.steps


@pytest.mark.parametrize("runs", [0, 40, 80, 120, 160, 240])
def test_what_was_measured_before_saves_runs_and_changes_nothing_at_any_limit(network, runs: int):
    """The limit may end the steps, or the pruning behind them."""
    _, session, exact = network
    goal = [*goals(exact)][1]
    everything = search(session, 10**6)
    everything.reach(10**3)
    everything.reach(goal)
    without = search(session, runs)
    found = without.reach(goal)
    known, before = search(session, runs), session.runs.runs
    known.cache = dict(everything.cache) | dict(without.cache)
    assert known.reach(goal) == found
    assert (known.steps, known.spent) == (without.steps, without.spent)
    assert session.runs.runs == before


@pytest.mark.parametrize("runs", [0, 1, 20, 40])
def test_the_limit_of_runs_is_kept_but_for_the_states_that_are_compared(network, runs: int):
    _, session, exact = network
    before, made = session.runs.runs, search(session, runs)
    found = made.reach([*goals(exact)][3])
    alone = made.few * len(session.layers)
    one_batch = (TRIED + 1) * len(session.runs.samples)
    assert session.runs.runs - before <= max(runs, alone) + one_batch
    assert (found.shortfall_db == 0) == (exact[frozenset(found.layers)] >= [*goals(exact)][3])


def test_a_higher_goal_goes_on_from_what_was_found(network):
    _, session, exact = network
    first, second = [*goals(exact)][1], [*goals(exact)][2]
    made = search(session, 10**6)
    one = made.reach(first)
    steps, before = list(made.steps), session.runs.runs
    assert made.reach(first) == one
    again = session.runs.runs - before
    assert made.steps[: len(steps)] == steps
    two = made.reach(second)
    assert two.worst_db == exact[frozenset(two.layers)] >= second
    assert again <= len(session.layers) * len(session.runs.samples)
    least = min(cost(session, subset) for subset, value in exact.items() if value >= second)
    assert two.share <= 1.5 * least


def test_a_curve_goes_on_until_half_of_the_cost_is_in_float(network):
    _, session, exact = network
    made = search(session, 10**6)
    made.go_on(exact[frozenset()] - 50)
    assert made.steps[0].layers == ()
    assert made.steps[-1].share > MOST_IN_FLOAT or made.steps[-1].worst_db == math.inf
    ends = [step.worst_db for step in made.steps]
    assert max(ends) > exact[frozenset()] + CURVE_STEP_DB


class Pretended:
    """Runs whose noise is the sum of given numbers, one for each site: shape [outputs]."""

    def __init__(self, noises: Sequence[Sequence[float]], signal: Sequence[float] = (1.0,)) -> None:
        self.samples, self.runs = [{}], 0
        self.sites = noises
        self._noises, self._signal = noises, signal

    @property
    def switches(self) -> "Pretended":
        return self

    @property
    def all_float(self) -> dict[int, None]:
        return dict.fromkeys(range(len(self._noises)))

    def noise(self, setting: Mapping[int, None], numbers: Sequence[int] | None = None) -> Noise:
        self.runs += len(self.samples if numbers is None else numbers)
        on = [noise for number, noise in enumerate(self._noises) if number not in setting]
        return Noise(np.array([self._signal]), np.sum([np.zeros(len(self._signal)), *on], axis=0)[None])


def pretended(noises: Sequence[Sequence[float]], shares: Sequence[float], signal: Sequence[float] = (1.0,)):
    layers = [Layer((), (number,)) for number in range(len(noises))]
    runs = Pretended(noises, signal)
    return layers, FloatSearch(layers, shares, runs, 1, 10**6)  # type: ignore[arg-type]


def test_nothing_goes_on_where_no_output_has_noise():
    _, made = pretended([[0.0], [0.0]], [0.5, 0.5])
    made.go_on(20.0)
    assert [step.worst_db for step in made.steps] == [math.inf]


def test_a_curve_from_a_goal_far_below_takes_few_steps():
    _, made = pretended([[1e-3], [1e-4], [1e-5]], [0.2, 0.2, 0.6])
    made.go_on(-1e300)
    assert [len(step.layers) for step in made.steps] == [0, 1, 2, 3]


def test_an_output_that_is_zero_everywhere_has_no_part_in_it():
    layers, made = pretended([[1e-2, 5.0], [1e-6, 5.0]], [0.5, 0.5], (1.0, 0.0))
    found = made.reach(30.0)
    assert (found.layers, found.worst_db) == ((layers[0],), pytest.approx(60))


def test_layers_that_make_infinity_are_found_one_after_another():
    noises = [[1e-6], [math.inf], [1e-5], [1e-6], [math.inf], [1e-6], [1e-6], [1e-6]]
    layers, made = pretended(noises, [1 / 8] * 8)
    found = made.reach(40.0)
    assert found.layers == (layers[1], layers[4])
    assert made.steps[0].worst_db == -WORST_DB
    assert made.steps[0].shortfall_db == WORST_DB + 40


def test_every_output_keeps_the_goal_whichever_layer_it_depends_on():
    noises = [[1e-2, 0, 0], [0, 1e-2, 0], [0, 0, 1e-2], [1e-9, 1e-9, 1e-9]]
    layers, made = pretended(noises, [0.25] * 4, (1.0, 1.0, 1.0))
    assert made.reach(60.0).layers == tuple(layers[:3])


def test_a_cheap_layer_is_preferred_to_a_costly_one_of_the_same_noise():
    layers, made = pretended([[1e-3], [1e-3], [1e-9]], [0.7, 0.2, 0.1])
    # 27 dB with both: either of them alone gives 30 dB.
    assert made.reach(29.0).layers == (layers[1],)


def test_a_dynamic_quotient_is_kept_finite(tmp_path: Path):
    save(tmp_path, *dividing())
    with planned(tmp_path) as made, opened(made) as session:
        found: SearchState = session.search().reach(30.0)
        assert {layer.leader.label for layer in found.layers} == {"first", "second"}
        assert found.worst_db >= 30
        assert session.worst_db({}) == -math.inf


FINER: Placement = object()  # type: ignore[assignment]
"""Stands for a pair in the fallback format: the pretended runs ask for no more."""


class TwoFormats(Pretended):
    """As :class:`Pretended`; a site in the fallback format makes a part of its noise."""

    def __init__(self, noises: Sequence[float], parts: Sequence[float]) -> None:
        super().__init__([[noise] for noise in noises])
        self._parts = parts

    def noise(self, setting: Mapping[int, object], numbers: Sequence[int] | None = None) -> Noise:
        finer = {number: FINER for number, chosen in setting.items() if chosen is FINER}
        found = super().noise(dict.fromkeys(setting), numbers)  # type: ignore[arg-type]
        return Noise(found.signal, found.noise + sum(self._noises[at][0] * self._parts[at] for at in finer))


def with_fallback(runs: TwoFormats, shares: Sequence[float], costs: Mapping[int, float]) -> FloatSearch:
    """A search in which the layers with a cost take the fallback format."""
    layers = [Layer((), (number,)) for number in range(len(shares))]
    fallback = Fallback("fine", "0c", dict.fromkeys(costs, FINER), {layers[at]: cost for at, cost in costs.items()})
    return FloatSearch(layers, shares, runs, 1, 10**6, fallback=fallback)  # type: ignore[arg-type]


def levels_of(made: FloatSearch, step: SearchState) -> tuple[int, ...]:
    return tuple(2 if layer in step.layers else 1 if layer in step.fallback else 0 for layer in made.layers)


@pytest.mark.parametrize("seed", range(12))
def test_three_levels_reach_goals_at_about_the_least_cost(seed: int):
    """Brute force over every level of every layer; noise adds up. The sixth layer does not take the fallback format."""
    random = np.random.default_rng(seed)
    noises, parts = np.exp(random.normal(-8, 2, 6)), random.uniform(0.001, 0.2, 6)
    shares = random.dirichlet(np.ones(6))
    costs = {at: float(shares[at] * random.uniform(0.05, 0.4)) for at in range(5)}
    each = [[(noises[at], 0.0), (noises[at] * parts[at], costs.get(at)), (0.0, shares[at])] for at in range(6)]

    def sqnr(levels: Sequence[int]) -> float:
        noise = math.fsum(each[at][level][0] for at, level in enumerate(levels))
        return -10 * math.log10(noise) if noise else math.inf

    def price(levels: Sequence[int]) -> float:
        return math.fsum(each[at][level][1] or 0.0 for at, level in enumerate(levels))

    legal = [levels for levels in product(range(3), repeat=6) if levels[5] != 1]
    for more in (1.0, 5.0, 12.0, 25.0):
        goal = sqnr([0] * 6) + more
        made = with_fallback(TwoFormats(noises, parts), shares, costs)
        found = made.reach(goal)
        levels = levels_of(made, found)
        assert levels[5] != 1
        assert found.worst_db == pytest.approx(sqnr(levels))
        assert found.shortfall_db == 0
        assert found.share == pytest.approx(price(levels))
        least = min(price(other) for other in legal if sqnr(other) >= goal)
        assert least <= found.share + 1e-12
        assert found.share <= 1.6 * least
        for at, level in enumerate(levels):
            cheaper = [other for other in range(level) if not (at == 5 and other == 1)]
            assert all(sqnr([*levels[:at], other, *levels[at + 1 :]]) < goal for other in cheaper), "each is needed"


def test_a_layer_goes_on_to_float_where_the_fallback_does_not_do():
    made = with_fallback(TwoFormats([1e-2, 1e-6], [0.5, 0.5]), [0.5, 0.5], {0: 0.1, 1: 0.1})
    assert levels_of(made, made.reach(22.0)) == (1, 0)
    assert levels_of(made, made.reach(40.0)) == (2, 0)
    assert [levels_of(made, step) for step in made.steps][-1] == (2, 0)


def test_a_fallback_that_makes_more_noise_is_never_taken():
    made = with_fallback(TwoFormats([1e-2, 1e-3], [1.5, 4.0]), [0.5, 0.5], {0: 0.1, 1: 0.1})
    assert levels_of(made, made.reach(25.0)) == (2, 0)
    assert levels_of(made, made.reach(35.0)) == (2, 2)


def test_the_curve_has_states_with_the_fallback_and_not_the_float_model():
    made = with_fallback(TwoFormats([1e-2, 1e-3], [0.01, 0.01]), [0.5, 0.5], {0: 0.1, 1: 0.1})
    made.reach(300.0)
    frontier = made.frontier()
    assert all(len(step.layers) < 2 for step in frontier)
    assert any(step.fallback for step in frontier)
    assert [step.share for step in frontier] == sorted(step.share for step in frontier)


def test_without_layers_that_take_it_a_fallback_changes_nothing():
    noises, shares = [1e-2, 1e-3, 1e-4], [0.5, 0.3, 0.2]
    plain, made = (
        pretended([[each] for each in noises], shares)[1],
        with_fallback(TwoFormats(noises, [1] * 3), shares, {}),
    )
    one, other = plain.reach(31.0), made.reach(31.0)
    assert [one.share, one.worst_db, len(one.layers)] == [other.share, other.worst_db, len(other.layers)]
    assert plain.spent == made.spent


class Cancelling(Pretended):
    """Errors of all layers partly cancel out: with a few of them in float there is more noise."""

    def noise(self, setting: Mapping[int, None], numbers: Sequence[int] | None = None) -> Noise:
        found, on = super().noise(setting, numbers), len(self._noises) - len(setting)
        return Noise(found.signal, found.noise * (0.1 if on == len(self._noises) else 1.0))


@pytest.mark.parametrize("count", [2, 5, 12, 40])
def test_a_search_goes_on_where_no_few_layers_are_better_in_float(count: int):
    runs = Cancelling([[1e-3]] * count)
    layers = [Layer((), (number,)) for number in range(count)]
    made = FloatSearch(layers, [1 / count] * count, runs, 1, 10**6)  # type: ignore[arg-type]
    found = made.reach(-10 * math.log10(count * 1e-4) + 3)
    assert found.shortfall_db == 0
    assert len(found.layers) >= 0.9 * count
