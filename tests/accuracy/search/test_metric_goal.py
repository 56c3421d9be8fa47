"""Models whose task metric keeps a limit, measured by ONNX Runtime and counted by hand."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from support.layered import AS_IT_IS, MAX, chain, nodes_with_pairs, outputs, rows

from qdqtool.accuracy.layers.fallback import NO_FALLBACK, Fallback
from qdqtool.accuracy.layers.layer import Layer
from qdqtool.accuracy.layers.prediction import SearchState
from qdqtool.accuracy.layers.search import CURVE_STEP_DB, FloatSearch
from qdqtool.accuracy.search import goal as goal_module
from qdqtool.accuracy.search import metric_goal
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.accuracy.search.goal import SearchOutcome
from qdqtool.accuracy.search.metric_goal import Best, MetricLossGoal, metric_missed, refuse_chance
from qdqtool.accuracy.task_metrics.measure import Score
from qdqtool.errors import GateError, UsageError
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.plan import Placement
from qdqtool.numerics.noise import WORST_DB, Noise
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.request import RandomData

COUNT, DEPTH = 60, 7


def run(model: Path, x: np.ndarray) -> np.ndarray:
    # Without optimizations: ONNX Runtime fuses Q/DQ into integer kernels, and those of some processors saturate.
    return np.stack([y for (y,) in outputs(model, [{"x": each} for each in x])])


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of 16 classes with outliers, 4 predictions a sample; the labels are what it says itself."""
    folder = tmp_path_factory.mktemp("metric")
    onnx.save(chain(DEPTH, uneven=60), folder / "m.onnx")
    for name, seed, count in (("d", 5, COUNT), ("v", 77, 50)):
        x = np.stack([each["x"] for each in rows(count=count, seed=seed)])
        np.savez(folder / f"{name}.npz", x=x, labels=run(folder / "m.onnx", x).argmax(axis=-1))
    return folder


def quantized(
    folder: Path, out: Path, goal: AccuracyGoal | None, metric: object = "top-1", **more: object
) -> QuantizeReport:
    options = QuantizeOptions(
        **{"recipe": MAX, "validation_data": folder / "v.npz", **more, "metric": metric, "goal": goal}
    )
    return quantize_model(folder / "m.onnx", folder / "d.npz", out, options)


def lost(folder: Path, model: Path, data: str = "v") -> float:
    """The percentage points of some data that a model loses; the float model has them all."""
    known = np.load(folder / f"{data}.npz")
    return 100 * float(np.mean(run(model, known["x"]).argmax(axis=-1) != known["labels"]))


def test_without_a_limit_the_metric_is_measured_and_the_model_is_the_same(stock: Path, tmp_path: Path) -> None:
    plain = quantized(stock, tmp_path / "a.onnx", None, None)
    report = quantized(stock, tmp_path / "b.onnx", None)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert plain.accuracy.metric is None
    found = report.accuracy.metric
    assert (found.name, found.baseline, found.predictions, report.goal) == ("top-1", 100, 200, None)
    assert found.loss == pytest.approx(lost(stock, tmp_path / "b.onnx"))
    assert found.loss > 5


def test_the_written_model_keeps_the_limit_with_fewer_layers_in_float_the_larger_it_is(
    stock: Path, tmp_path: Path
) -> None:
    counts = []
    for limit in (2.0, 20.0, 100.0):
        report = quantized(stock, tmp_path / "q.onnx", AccuracyGoal(max_metric_loss=limit))
        assert lost(stock, tmp_path / "q.onnx") <= limit
        assert report.accuracy.metric.loss == pytest.approx(lost(stock, tmp_path / "q.onnx"))
        left = () if report.goal is None else report.goal.left
        counts.append(len(left))
        assert len(nodes_with_pairs(onnx.load(tmp_path / "q.onnx"))) == DEPTH - len(left)
        if report.goal is not None:
            told = report.goal.metric
            assert (told.max_loss, told.predictions, told.choosing_predictions) == (limit, 200, 4 * COUNT)
            assert told.choosing_loss <= limit < told.loss_without
            assert report.goal.min_sqnr_db is None
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[1] > counts[2] == 0


@pytest.mark.slow(reason="two searches")
def test_the_layers_of_a_limit_are_fewer_than_those_of_a_blind_goal_of_noise(stock: Path, tmp_path: Path) -> None:
    scored = quantized(stock, tmp_path / "a.onnx", AccuracyGoal(max_metric_loss=20))
    blind = quantized(stock, tmp_path / "b.onnx", AccuracyGoal(min_sqnr_db=34))
    assert len(scored.goal.left) < len(blind.goal.left)
    both = quantized(stock, tmp_path / "c.onnx", AccuracyGoal(min_sqnr_db=34, max_metric_loss=20))
    assert both.goal.worst_db is not None
    assert both.goal.worst_db >= 34
    assert lost(stock, tmp_path / "c.onnx") <= 20


def test_a_function_decides_as_the_metric_that_it_computes(stock: Path, tmp_path: Path) -> None:
    def right(outputs: list[dict[str, np.ndarray]], labels: list[np.ndarray | None]) -> float:
        return float(100 * np.mean([o["y"].argmax(axis=-1) == each for o, each in zip(outputs, labels, strict=True)]))

    quantized(stock, tmp_path / "a.onnx", AccuracyGoal(max_metric_loss=4))
    report = quantized(stock, tmp_path / "b.onnx", AccuracyGoal(max_metric_loss=4), right)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert report.goal.metric.predictions == 50


def test_a_limit_out_of_reach_writes_nothing_and_hints_at_one_that_is_kept(stock: Path, tmp_path: Path) -> None:
    data = {name: np.load(stock / f"{name}.npz")["x"] for name in "dv"}
    means = {name: np.abs(run(stock / "m.onnx", x)).mean(axis=(1, 2), dtype=np.float64) for name, x in data.items()}

    def likeness(outputs: list[dict[str, np.ndarray]], labels: list[np.ndarray | None]) -> float:
        del labels
        known = np.array([np.abs(each["y"]).mean(dtype=np.float64) for each in outputs])
        return -float(np.abs(known - means["d" if len(known) == COUNT else "v"]).sum())

    told = r"with \d of 7 layers in float it loses .*\. The (weights|activations) limit it"
    with pytest.raises(GateError, match=told) as missed:
        quantized(stock, tmp_path / "q.onnx", AccuracyGoal(max_metric_loss=1e-9), likeness)
    assert list(tmp_path.iterdir()) == []
    hint = re.search(r"`--max-metric-loss ([^`]+)`", missed.value.hint or "")
    kept = float(hint[1])
    report = quantized(stock, tmp_path / "q.onnx", AccuracyGoal(max_metric_loss=kept), likeness)
    assert report.accuracy.metric.loss <= kept


def test_a_limit_that_the_samples_cannot_show_is_refused_with_the_number_that_can(stock: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        quantized(stock, tmp_path / "q.onnx", AccuracyGoal(max_metric_loss=0.2))
    assert refused.value.message == (
        "--max-metric-loss 0.2: one of the 200 predictions on the samples that measure is 0.5 percentage points, so "
        "that they cannot show such a loss"
    )
    # 500 predictions, 4 in each sample.
    assert refused.value.hint == "125 samples of that part can show it; or `--max-metric-loss 0.5`"
    with pytest.raises(UsageError, match="one of the 48 predictions on the samples that measure is 2"):
        quantized(stock, tmp_path / "q.onnx", AccuracyGoal(max_metric_loss=2), validation_data=None)
    assert list(tmp_path.iterdir()) == []


def test_a_float_model_at_chance_has_nothing_to_lose(stock: Path, tmp_path: Path) -> None:
    for name in "dv":
        data = dict(np.load(stock / f"{name}.npz"))
        np.savez(tmp_path / f"{name}.npz", x=data["x"], labels=(data["labels"] + 1) % 16)
    (tmp_path / "m.onnx").write_bytes((stock / "m.onnx").read_bytes())
    with pytest.raises(
        UsageError, match=r"top-1 of the float model is no better than guessing: 0 of 200 predictions are right"
    ):
        quantized(tmp_path, tmp_path / "q.onnx", AccuracyGoal(max_metric_loss=90))
    assert not (tmp_path / "q.onnx").exists()


def test_a_model_whose_values_are_not_finite_keeps_no_limit() -> None:
    goal = AccuracyGoal(max_metric_loss=5)
    assert goal.is_kept(None, 5)
    assert goal.is_kept(-20, -1)
    assert not goal.is_kept(-np.inf, 0)
    assert not goal.is_kept(30, np.nan)
    assert not goal.is_kept(30, 5.1)
    both = AccuracyGoal(max_metric_loss=5, min_sqnr_db=30)
    assert [both.is_kept(db, 1) for db in (None, 30, 29.9)] == [True, True, False]


@pytest.mark.parametrize(
    ("goal", "metric", "message"),
    [
        (AccuracyGoal(), "top-1", "a goal needs a limit"),
        (AccuracyGoal(max_metric_loss=1), None, "--max-metric-loss limits the loss of a metric"),
        (AccuracyGoal(max_metric_loss=0), "top-1", "--max-metric-loss is 0; it must be a number above 0"),
        (AccuracyGoal(max_metric_loss=float("nan")), "top-1", "--max-metric-loss is nan"),
        (AccuracyGoal(min_sqnr_db=float("inf")), None, "--min-sqnr inf is no accuracy"),
    ],
)
def test_goals_that_make_no_sense_are_refused_before_anything_is_read(
    goal: AccuracyGoal, metric: str | None, message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        quantize_model("none.onnx", None, "q.onnx", QuantizeOptions(goal=goal, metric=metric))


def test_what_the_data_lacks_for_a_metric_is_told_before_anything_is_calibrated(stock: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.load(stock / "v.npz")["x"])

    def never(_: int, __: int) -> None:
        raise AssertionError

    with pytest.raises(UsageError, match="'none' is no output; the outputs are y"):
        quantize_model(
            stock / "m.onnx",
            stock / "d.npz",
            tmp_path / "q.onnx",
            QuantizeOptions(recipe=MAX, metric="top-1:none"),
            never,
        )
    coarse = QuantizeOptions(
        recipe=MAX, metric="top-1", goal=AccuracyGoal(max_metric_loss=0.2), validation_data=stock / "v.npz"
    )
    with pytest.raises(UsageError, match=r"one of the 200 predictions on the samples that measure is 0\.5"):
        quantize_model(stock / "m.onnx", stock / "d.npz", tmp_path / "q.onnx", coarse, never)
    for data, validation in ((stock / "d.npz", tmp_path / "x.npz"), (tmp_path / "x.npz", None), (RandomData(), None)):
        options = QuantizeOptions(recipe=MAX, metric="top-1", validation_data=validation)
        with pytest.raises(UsageError, match="no labels for the metric"):
            quantize_model(stock / "m.onnx", data, tmp_path / "q.onnx", options, never)


def test_the_curve_goes_on_beyond_the_limit(stock: Path, tmp_path: Path) -> None:
    goal = AccuracyGoal(max_metric_loss=4, whole_curve=True)
    report = quantized(stock, tmp_path / "q.onnx", goal, curve_file=tmp_path / "c.json")
    points = json.loads((tmp_path / "c.json").read_text())["points"]
    at = [point["layers_in_float"] for point in points]
    assert len(report.goal.left) in at
    assert at[0] == 0
    assert max(at) >= len(report.goal.left)


def save_labelled(folder: Path, model: onnx.ModelProto, shape: tuple[int, int], counts: dict[str, int]) -> None:
    """Write a model with data whose labels are what it says itself, as ONNX Runtime runs it without optimizations."""
    onnx.save(model, folder / "m.onnx")
    for seed, (name, count) in enumerate(counts.items(), 5):
        samples = rows(shape, count, seed)
        labels = [y.argmax(axis=-1) for (y,) in outputs(model, samples)]
        np.savez(folder / f"{name}.npz", x=np.stack([each["x"] for each in samples]), labels=np.stack(labels))


def weight_types(model: Path) -> Counter[str]:
    """How many weights are stored in each type, read from the file."""
    proto = onnx.load(model)
    stored = {tensor.name: tensor.data_type for tensor in proto.graph.initializer}
    read = (node.input[0] for node in proto.graph.node if node.op_type == "DequantizeLinear")
    products = (node.input[1] for node in proto.graph.node if node.op_type == "MatMul")
    types = [stored[name] for name in (*read, *products) if name in stored]
    return Counter(TensorProto.DataType.Name(each) for each in types)


@pytest.mark.parametrize("limit", [3.0, 10.0])
def test_a_limit_puts_layers_into_the_fallback_and_the_written_model_keeps_it(limit: float, tmp_path: Path) -> None:
    save_labelled(tmp_path, chain(5, width=64, uneven=6.0), (4, 64), {"d": 40, "v": 50})
    recipe = Recipe(quantize_mode="int4", fallback="int8", preparation=AS_IT_IS)
    report = quantized(tmp_path, tmp_path / "q.onnx", AccuracyGoal(max_metric_loss=limit), recipe=recipe)
    told, left, finer = report.goal.metric, len(report.goal.left), len(report.goal.finer)
    assert finer > 0
    assert weight_types(tmp_path / "q.onnx") == Counter({"INT4": 5 - left - finer, "INT8": finer, "FLOAT": left})
    assert told.loss == pytest.approx(lost(tmp_path, tmp_path / "q.onnx", "v"))
    # With data of its own to measure on, all calibration data chooses, and the ranges are those of the written model.
    assert told.choosing_loss == pytest.approx(lost(tmp_path, tmp_path / "q.onnx", "d"))
    assert max(told.loss, told.choosing_loss) <= limit < told.loss_without


@pytest.mark.slow(reason="searches five models")
def test_after_five_models_the_measuring_samples_choose_the_cheapest_of_all_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metric loses nothing on the samples that choose, so the noise of the first five models is too much."""
    depth, limit, most = 10, 8.0, 70
    save_labelled(tmp_path, chain(depth, uneven=60), (4, 16), {"d": most, "v": 50})
    # Of the states that the search comes by, none is passed over unmeasured.
    monkeypatch.setattr(metric_goal, "CURVE_STEP_DB", 1e-6)

    def harsh(found: list[dict[str, np.ndarray]], labels: list[np.ndarray | None]) -> float:
        if len(found) == most:
            return 0.0
        wrong = [each["y"].argmax(axis=-1) != label for each, label in zip(found, labels, strict=True)]
        return -100 * float(np.mean(wrong))

    goal = AccuracyGoal(max_metric_loss=limit, whole_curve=True)
    report = quantized(tmp_path, tmp_path / "q.onnx", goal, harsh)
    losses = []
    for point in report.goal.curve:
        options = replace(MAX, selection=Selection(nodes_to_exclude=point.nodes))
        quantized(tmp_path, tmp_path / "state.onnx", None, None, recipe=options)
        losses.append(lost(tmp_path, tmp_path / "state.onnx", "v"))
    keep = [loss <= limit for loss in losses]
    cheapest = keep.index(True)
    assert keep == [False] * cheapest + [True] * (len(keep) - cheapest)
    assert goal_module.TRIALS < cheapest < len(keep) - 1
    assert {layer.node for layer in report.goal.left} == set(report.goal.curve[cheapest].nodes) - {""}
    assert report.goal.metric.loss == pytest.approx(losses[cheapest])
    # Five one after another, the last one, and those of the bisection.
    assert goal_module.TRIALS + 3 <= report.goal.metric.models < len(keep)


FINER: Placement = object()  # type: ignore[assignment]
"""Stands for a pair in the fallback format."""

PART = 0.01
"""The part of its noise, and of its loss, that a site makes in the fallback format."""

REFERENCE = 50.0


@dataclass
class Runs:
    """A model of one site a layer. Noise is the sum of that of the sites, and so is the loss of the metric."""

    noises: Sequence[float]
    losses: Sequence[float]
    samples: Sequence[Mapping[str, np.ndarray]] = ({},)
    scored: list[str] = field(default_factory=list)

    @property
    def switches(self) -> "Runs":
        return self

    @property
    def all_float(self) -> dict[int, None]:
        return dict.fromkeys(range(len(self.noises)))

    @property
    def sites(self) -> Sequence[float]:
        return self.noises

    @property
    def measure(self) -> "Runs":
        return self

    def loss(self, value: float, reference: float) -> float:
        return reference - value

    def score(self, setting: Mapping[int, object], model: str) -> Score:
        self.scored.append(model)
        return Score(value=REFERENCE - self.sum(self.losses, setting), predictions=1)

    def noise(self, setting: Mapping[int, object], numbers: Sequence[int] | None = None) -> Noise:
        del numbers
        return Noise(np.array([[1.0]]), np.array([[self.sum(self.noises, setting)]]))

    def sum(self, each: Sequence[float], setting: Mapping[int, object]) -> float:
        parts = (1.0 if at not in setting else PART if setting[at] is FINER else 0.0 for at in range(len(each)))
        return math.fsum(part * value for part, value in zip(parts, each, strict=True) if part)


def choosing(runs: Runs, goal: AccuracyGoal, *, fallback: bool = False) -> MetricLossGoal:
    layers = [Layer((), (number,)) for number in range(len(runs.noises))]
    share = 1 / len(layers)
    finer = Fallback("fine", "0c", dict.fromkeys(range(len(layers)), FINER), dict.fromkeys(layers, share / 4))
    search = FloatSearch(layers, [share] * len(layers), runs, 1, 10**6, fallback=finer if fallback else NO_FALLBACK)  # type: ignore[arg-type]
    return MetricLossGoal(
        limits=goal,
        factory=None,  # type: ignore[arg-type]
        first=None,  # type: ignore[arg-type]
        session=None,  # type: ignore[arg-type]
        search=search,
        runs=runs,  # type: ignore[arg-type]
        reference=Score(value=REFERENCE, predictions=1),
    )


def state(made: MetricLossGoal, layers: Sequence[int], fallback: Sequence[int] = ()) -> SearchState:
    every = made.search.layers
    return SearchState(tuple(every[at] for at in layers), 0.5, 30.0, 0.0, tuple(every[at] for at in fallback))


def test_states_with_the_same_float_layers_and_other_fallback_layers_have_losses_of_their_own() -> None:
    runs = Runs([1e-2, 1e-3, 1e-4], [4.0, 2.0, 1.0])
    made = choosing(runs, AccuracyGoal(max_metric_loss=1.5), fallback=True)
    one, other, none = state(made, [2], [0]), state(made, [2], [1]), state(made, [2])
    for _ in range(2):
        assert made.loss(one) == pytest.approx(4 * PART + 2)
        assert made.loss(other) == pytest.approx(4 + 2 * PART)
        assert made.loss(none) == pytest.approx(6)
    # Each state is run once, and messages tell them apart from the float model.
    assert runs.scored == ["the model with 1 of 3 layers in float and 1 in fine"] * 2 + [
        "the model with 1 of 3 layers in float and 0 in fine"
    ]
    assert [made.is_expected_to_keep(each) for each in (one, other, state(made, [], [0, 1, 2]))] == [False, False, True]


@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize("limit", [0.02, 0.5, 3.0, 9.0, 100.0])
def test_the_cheapest_state_is_the_first_that_keeps_the_limit(limit: float, *, fallback: bool) -> None:
    """The loss falls with the noise, so bisection has to find what trying all states finds."""
    noises = [10.0**-power for power in (2, 3, 2.5, 4, 3.5, 5)]
    runs = Runs(noises, [1000 * each for each in noises])
    made = choosing(runs, AccuracyGoal(max_metric_loss=limit), fallback=fallback)
    found = made.propose()
    assert found is not None
    states = made.search.frontier()
    losses = [runs.sum(runs.losses, made.search.setting(each)) for each in states]
    assert losses == sorted(losses, reverse=True)
    assert found == next(each for each, loss in zip(states, losses, strict=True) if loss <= limit)


def test_a_state_above_a_given_sqnr_has_that_sqnr_at_least() -> None:
    noises = [1e-2, 1e-3, 1e-4, 1e-5]
    made = choosing(Runs(noises, [0.0] * 4), AccuracyGoal(max_metric_loss=1))
    known = []
    while (found := made.propose()) is not None:
        assert found.worst_db >= made.above_db
        known.append(len(found.layers))
        made.ask_more(SearchOutcome(found, None, 0.0))
        assert made.above_db == found.worst_db + CURVE_STEP_DB
    # Nothing is lost anywhere: each is the cheapest of its noise, and the float model is none of them.
    assert known == [0, 1, 2, 3]


def test_no_state_keeps_a_limit_that_every_layer_breaks() -> None:
    made = choosing(Runs([1e-2, 1e-3], [5.0, 5.0]), AccuracyGoal(max_metric_loss=1))
    assert made.propose() is None


def test_a_limit_of_noise_is_kept_beside_that_of_the_metric() -> None:
    runs = Runs([1e-2, 1e-3, 1e-4], [0.0, 0.0, 0.0])
    found = choosing(runs, AccuracyGoal(max_metric_loss=1, min_sqnr_db=35)).propose()
    assert len(found.layers) == 2
    # The metric takes a run of every sample: states of too much noise are not run for it.
    assert "the model with 0 of 3 layers in float" not in runs.scored


def test_a_state_that_makes_infinity_keeps_no_limit_whatever_the_metric_says() -> None:
    made = choosing(Runs([1e-4, math.inf, 1e-4], [0.0] * 3), AccuracyGoal(max_metric_loss=1))
    found = made.propose()
    assert made.search.steps[0].worst_db == -WORST_DB
    assert found.layers == (made.search.layers[1],)


FLOAT = 80.0


def missed(goal: AccuracyGoal, best: Best, *, weights: float = 3.0, activations: float = 1.0) -> GateError:
    """The error for a model that loses so much with one kind of pairs alone."""

    def of_kind(*, constants: bool) -> dict[str, bool]:
        # The setting without the pairs of weights has those of activations.
        return {"constants": constants}

    def score(setting: Mapping[str, bool], model: str) -> Score:
        del model
        return Score(value=FLOAT - (activations if setting["constants"] else weights), predictions=1)

    measure = SimpleNamespace(name="m", loss_unit="points", loss=lambda value, reference: reference - value)
    layers, runs = SimpleNamespace(of_kind=of_kind), SimpleNamespace(measure=measure, score=score)
    return metric_missed(goal, best, layers, runs, Score(value=FLOAT, predictions=1))  # type: ignore[arg-type]


LEVELS = "4 of 5 layers in float"


@pytest.mark.parametrize(
    ("weights", "activations", "kind"),
    [(3.0, 1.0, "weights"), (1.0, 3.0, "activations"), (1.0, math.nan, "activations"), (math.inf, 1.0, "weights")],
)
def test_what_loses_more_alone_limits_it(weights: float, activations: float, kind: str) -> None:
    goal = AccuracyGoal(max_metric_loss=1)
    message = missed(goal, Best(LEVELS, 30, 2.5), weights=weights, activations=activations).message
    assert f"with {LEVELS} it loses 2.5 points. The {kind} limit it" in message
    assert f"a loss of {weights:.3g} points with weights alone quantized" in message
    assert f"{activations:.3g} points with activations alone" in message


@pytest.mark.parametrize(
    ("goal", "best", "options"),
    [
        (AccuracyGoal(max_metric_loss=1), Best(LEVELS, 30, 2.3456), "--max-metric-loss 2.35"),
        (AccuracyGoal(max_metric_loss=1, min_sqnr_db=20), Best(LEVELS, 30, 2.5), "--max-metric-loss 2.5"),
        (AccuracyGoal(max_metric_loss=1, min_sqnr_db=40), Best(LEVELS, 30.9, 0.5), "--min-sqnr 30 --max-metric-loss 1"),
        (AccuracyGoal(max_metric_loss=1, min_sqnr_db=40), Best(LEVELS, 30.9, 2), "--min-sqnr 30 --max-metric-loss 2"),
    ],
)
def test_the_hint_names_limits_that_the_best_model_keeps(goal: AccuracyGoal, best: Best, options: str) -> None:
    assert missed(goal, best).hint == f"`{options}`; or more calibration data, or another quantize mode"
    words = options.split()
    given = dict(zip(words[::2], map(float, words[1::2]), strict=True))
    hinted = AccuracyGoal(
        max_metric_loss=given["--max-metric-loss"], min_sqnr_db=given.get("--min-sqnr", goal.min_sqnr_db)
    )
    assert hinted.is_kept(best.worst_db, best.loss)
    assert not goal.is_kept(best.worst_db, best.loss)


@pytest.mark.parametrize("best", [Best(LEVELS, 30, math.nan), Best(LEVELS, -WORST_DB, 2), Best(LEVELS, -math.inf, 2)])
def test_a_model_that_keeps_no_limit_gives_no_hint_to_paste(best: Best) -> None:
    hint = missed(AccuracyGoal(max_metric_loss=1), best).hint
    assert hint == "more calibration data, or another quantize mode"


def test_a_float_model_at_chance_is_refused() -> None:
    refuse_chance("m", None)
    with pytest.raises(UsageError, match="m of the float model is no better than guessing: 1 of 9 is right"):
        refuse_chance("m", "1 of 9 is right")
