"""Effects of layers, and their task metric, against models that have the pairs of one layer alone, or all others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from accuracy.layers.test_layer import attention, residual, turned_weights
from support.layered import MAX, Planned, chain, dividing, outputs, planned, rows, save

from qdqtool.accuracy.layers import effects
from qdqtool.accuracy.layers.effects import Effect, effects_of, noise_shares
from qdqtool.accuracy.layers.layer import Layer, by_reader, excluding_patterns
from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.masked_runs import float_setting, only_setting
from qdqtool.errors import UsageError
from qdqtool.jobs.sensitivity import SensitivityOptions, measure_sensitivity
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.placement import Selection
from qdqtool.samples.request import RandomData

CORRECTED = replace(MAX, preparation=Preparation(equalize=False, smoothquant=None, bias_correction=True, awq=False))
WEIGHTS, FEW_BITS = (replace(MAX, quantize_mode=mode) for mode in ("int8-weight-only", "int4"))
COUNT = 3

CASES = {
    "chain": (chain, (4, 16), MAX),
    "residual": (residual, (1, 16, 4, 4), CORRECTED),
    "attention": (attention, (16, 16), MAX),
    "turned weights": (turned_weights, (4, 16), CORRECTED),
    "weights": (lambda: chain(3, 64), (4, 64), WEIGHTS),
    "few bits": (lambda: chain(3, 64), (4, 64), FEW_BITS),
}


def ignore(_: int, __: int) -> None:
    pass


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Planned, LayerRuns, str]]:
    make, shape, recipe = CASES[request.param]
    save(tmp_path, make(), rows(shape))
    with planned(tmp_path, recipe) as made:
        session = LayerRuns.of(made.ready, made.plan, made.prepared, made.choosing, COUNT)
        with session:
            yield tmp_path, made, session, request.param


def noise(made: Planned, plan: QuantPlan, session: LayerRuns) -> list[float]:
    """Noise of each output over the samples of the session, in float64."""
    float_runs = outputs(made.ready.proto, session.runs.samples)
    found = outputs(made.applied(plan), session.runs.samples) if len(plan) else float_runs
    pairs = [list(zip(a, x, strict=True)) for a, x in zip(float_runs, found, strict=True)]
    return [
        sum(float(np.sum((run[at][0].astype(np.float64) - run[at][1]) ** 2)) for run in pairs)
        for at in range(len(pairs[0]))
    ]


def test_alone_is_the_model_with_the_pairs_of_this_unit_and_without_that_of_all_others(case):
    _, made, session, _ = case
    divided = by_reader(made.plan, made.index)
    effects = effects_of(session.layers, session.runs, ignore)
    assert {effect.layer for effect in effects} == set(session.layers)
    for effect in effects:
        sites = set(effect.layer.sites)
        alone = QuantPlan(tuple(each for number, each in enumerate(divided) if number in sites))
        rest = QuantPlan(tuple(each for number, each in enumerate(divided) if number not in sites))
        for errors, plan in ((effect.alone, alone), (effect.without, rest)):
            expected = noise(made, plan, session)
            assert [error.noise for error in errors.values()] == pytest.approx(expected, rel=1e-6)
            assert min(expected) > 0


# Not with few bits: their codes are chosen behind the quantized layers in front, so another plan has others.
@pytest.mark.parametrize("case", [name for name in CASES if name != "few bits"], indirect=True)
def test_without_is_what_quantize_makes_with_the_patterns_of_the_unit(case):
    folder, made, session, name = case
    recipe = CASES[name][2]
    for effect in effects_of(session.layers, session.runs, ignore):
        patterns = excluding_patterns([effect.layer], made.index)[effect.layer]
        with planned(folder, replace(recipe, selection=Selection(nodes_to_exclude=patterns))) as rest:
            found = noise(rest, rest.plan, session)
        assert [error.noise for error in effect.without.values()] == pytest.approx(found, rel=1e-6)


def test_effects_are_sorted_by_gain_and_measured_in_as_many_runs_as_said(case):
    _, _, session, _ = case
    before, told = session.runs.runs, list[tuple[int, int]]()
    effects = effects_of(session.layers, session.runs, lambda done, total: told.append((done, total)))
    # Two settings for each layer, all pairs, and none.
    assert session.runs.runs - before == (2 * len(session.layers) + 2) * COUNT
    assert told == [(done, 2 * len(session.layers)) for done in range(2 * len(session.layers))]
    gains = [effect.gain_db for effect in effects]
    assert gains == sorted(gains, reverse=True)
    whole = session.runs.noise({})
    for effect in effects:
        assert effect.gain_db == whole.gain_db(session.runs.noise(float_setting([effect.layer])))


def test_the_settings_switch_one_unit_and_all_others(case):
    _, _, session, _ = case
    for layer in session.layers:
        assert float_setting([layer]) == dict.fromkeys(layer.sites)
        assert only_setting([layer], session.runs.switches).keys() == set(session.masked.all_float) - set(layer.sites)
    assert float_setting(session.layers) == session.masked.all_float


def error(noise: float, *, nonfinite: int = 0) -> AccumulatedError:
    return AccumulatedError(elements=4, signal=100.0, noise=noise, nonfinite_mismatches=nonfinite)


def effect(**alone: AccumulatedError) -> Effect:
    return Effect(Layer((), ()), alone, {}, 0.0)


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ([], []),
        ([effect(y=error(2))], [1]),
        ([effect(y=error(3)), effect(y=error(1))], [0.75, 0.25]),
        # The output where the share is largest: z for the second one.
        ([effect(y=error(3), z=error(1)), effect(y=error(1), z=error(9))], [0.75, 0.9]),
        ([effect(y=error(0)), effect(y=error(0))], [0, 0]),
        ([effect(y=error(0), z=error(1)), effect(y=error(0), z=error(3))], [0.25, 0.75]),
        # What is NaN or infinite is in no sum.
        ([effect(y=error(0, nonfinite=1)), effect(y=error(5))], [1, 1]),
        ([effect(y=error(1, nonfinite=2)), effect(y=error(3)), effect(y=error(4))], [1, 0.375, 0.5]),
        ([effect(), effect()], [0, 0]),
    ],
)
def test_shares_of_the_noise(effects: list[Effect], expected: list[float]):
    shares: Mapping[Layer, float] = noise_shares(effects)
    assert [shares[each.layer] for each in effects] == expected


def test_units_that_make_infinity_have_the_largest_shares_and_no_gain_alone(tmp_path: Path):
    save(tmp_path, *dividing())
    with planned(tmp_path) as made, LayerRuns.of(made.ready, made.plan, made.prepared, made.choosing) as session:
        effects = {each.layer.leader.label: each for each in effects_of(session.layers, session.runs, ignore)}
    shares = {layer.leader.label: share for layer, share in noise_shares(list(effects.values())).items()}
    assert shares == {"first": 1, "second": 1, "third": 1}
    lost = {name: each.alone["d"].nonfinite_mismatches > 0 for name, each in effects.items()}
    assert lost == {"first": True, "second": True, "third": False}
    # Either of the two makes it infinite, so that one of them in float gains nothing at this output.
    assert all(np.isfinite(each.gain_db) for each in effects.values())
    assert abs(effects["first"].gain_db) < 50


DEPTH = 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path, chain(DEPTH, uneven=300), rows())
    return tmp_path


def likeness(outputs: Sequence[Mapping[str, np.ndarray]], labels: Sequence[object]) -> float:
    """Mean of all values, which every error changes."""
    assert list(labels) == [None] * len(outputs)
    return float(np.mean([each["y"] for each in outputs], dtype=np.float64))


def value(made: Planned, keep: Callable[[Placement], bool], count: int | None = None) -> float:
    plan = replace(made.plan, placements=tuple(each for each in made.plan if keep(each)))
    samples = [dict(sample) for sample in made.choosing][:count]
    return likeness([{"y": y} for (y,) in outputs(made.applied(plan), samples)], [None] * len(samples))


def of(number: int) -> Callable[[Placement], bool]:
    """Whether a pair is read by a product."""
    output = "y" if number == DEPTH - 1 else f"a{number}"
    return lambda placement: placement.slot.uses is not None and placement.slot.uses[0].node == (output,)


def but(number: int) -> Callable[[Placement], bool]:
    """Whether a pair is read by another product."""
    own = of(number)
    return lambda placement: not own(placement)


def test_every_layer_has_the_metric_that_onnxruntime_gives(folder: Path) -> None:
    report = measure_sensitivity(folder / "m.onnx", folder / "d.npz", SensitivityOptions(recipe=MAX, metric=likeness))
    with planned(folder) as made:
        known = [value(made, lambda _: False), value(made, lambda _: True)]
        assert [report.metric.float_value, report.metric.value] == pytest.approx(known, rel=1e-5)
        for layer in report.nodes:
            number = int(layer.node.removeprefix("m"))
            alone, without = value(made, of(number)), value(made, but(number))
            assert [layer.metric.alone, layer.metric.without] == pytest.approx([alone, without], rel=1e-5)
            assert alone != pytest.approx(known[0], rel=1e-5)
        assert report.metric.samples == report.metric.layer_samples == report.metric.predictions == len(made.choosing)
    assert report.metric.loss == report.metric.float_value - report.metric.value


def test_many_layers_are_measured_on_fewer_samples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "FEW_SAMPLES", 3)
    monkeypatch.setattr(effects, "RUNS_PER_SAMPLE", 4)
    report = measure_sensitivity(folder / "m.onnx", folder / "d.npz", SensitivityOptions(recipe=MAX, metric=likeness))
    told = report.metric
    # 8 samples may choose: 4 runs of each are 32, for two of each layer.
    assert (told.samples, told.layer_samples, told.layer_predictions) == (8, 4, 4)
    with planned(folder) as made:
        known = [value(made, lambda _: False, 4), value(made, lambda _: True, 4), value(made, lambda _: True)]
        assert [told.layer_float_value, told.layer_value, told.value] == pytest.approx(known, rel=1e-5)
        first = next(layer.metric for layer in report.nodes if layer.node == "m1")
        assert first.alone == pytest.approx(value(made, of(1), 4), rel=1e-5)


def test_a_metric_changes_nothing_else(folder: Path) -> None:
    plain = measure_sensitivity(folder / "m.onnx", folder / "d.npz", SensitivityOptions(recipe=MAX))
    scored = measure_sensitivity(folder / "m.onnx", folder / "d.npz", SensitivityOptions(recipe=MAX, metric=likeness))
    assert (plain.metric, [each.metric for each in plain.nodes]) == (None, [None] * DEPTH)
    nodes = tuple(replace(each, metric=None) for each in scored.nodes)
    assert replace(scored, metric=None, nodes=nodes, runs=plain.runs) == plain


def test_labels_are_missed_before_anything_is_calibrated(folder: Path) -> None:
    def never(_: int, __: int) -> None:
        raise AssertionError

    options = SensitivityOptions(recipe=MAX, metric="top-1")
    for data in (folder / "d.npz", RandomData()):
        with pytest.raises(UsageError, match="no labels for the metric"):
            measure_sensitivity(folder / "m.onnx", data, options, never)
