"""Runs of a masked model: which samples are run, how outputs are compared with the float model's, and a task metric."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.layered import Planned, chain, outputs, planned, save
from support.layered import rows as samples_of
from support.small import make_model, run

from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.masked_model import mask_model
from qdqtool.accuracy.layers.masked_runs import MaskedRuns, MetricRuns
from qdqtool.accuracy.task_metrics.request import load_metric
from qdqtool.errors import ModelError
from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model
from qdqtool.models.options import Profile
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.models.running.ort_cpu import Session
from qdqtool.models.running.ort_errors import RunError
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.insertion.apply_plan import apply_plan
from qdqtool.samples.sample import NoLabelsError


def pair(tensor: str, scale: float, reader: str, index: int = 0) -> Placement:
    params = QuantParams(QuantScheme(formats.get("int8"), PerTensor()), np.asarray(scale, np.float32))
    return Placement(Slot((), tensor, (UseRef((), (reader,), index),)), params, "a test")


WEIGHT = np.random.default_rng(0).integers(-8, 9, (8, 6)).astype(np.float32)
PLAN = (pair("x", 2, "m"), pair("w", 4, "m", 1), pair("m", 16, "r"))


def two_outputs() -> onnx.ModelProto:
    """x -> MatMul -> m -> Relu -> r, and the number of the largest r in a row, which is an integer."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("ArgMax", ["r"], ["first"], axis=1),
        helper.make_node("Neg", ["m"], ["n"]),
    ]
    model = make_model(nodes, {"x": (2, 8)}, {"r": (2, 6), "n": (2, 6)}, {"w": WEIGHT})
    model.graph.output.append(helper.make_tensor_value_info("first", TensorProto.INT64, (2, 1)))
    return model


def samples(count: int = 4) -> list[Mapping[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.integers(-20, 21, (2, 8)).astype(np.float32)} for _ in range(count)]


def opened(model: onnx.ModelProto, given: list[Mapping[str, np.ndarray]], plan: tuple[Placement, ...]) -> MaskedRuns:
    return MaskedRuns(mask_model(Model(model), QuantPlan(plan)), given)


def by_hand(given: list[Mapping[str, np.ndarray]], plan: tuple[Placement, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Signal and noise of r and n, ``[samples, outputs]``, from ONNX Runtime on the float and the quantized model."""
    written = inlined(apply_plan(Model(two_outputs()), QuantPlan(plan)).model)
    signal, noise = [], []
    for sample in given:
        pairs = list(zip(run(two_outputs(), sample)[:2], run(written, sample)[:2], strict=True))
        signal.append([np.sum(a.astype(np.float64) ** 2) for a, _ in pairs])
        noise.append([np.sum((a.astype(np.float64) - x) ** 2) for a, x in pairs])
    return np.array(signal), np.array(noise)


@pytest.mark.parametrize("kept", [(0, 1, 2), (1,), (0, 2)])
def test_errors_and_noise_are_the_sums_of_the_quantized_model(kept):
    given, plan = samples(), tuple(PLAN[number] for number in kept)
    setting = {number: None for number in range(3) if number not in kept}
    signal, noise = by_hand(given, plan)
    with opened(two_outputs(), given, PLAN) as runs:
        assert runs.outputs == ["r", "n"]
        found, errors = runs.noise(setting), runs.measure(setting).errors
    # Integers throughout: every sum is exact.
    np.testing.assert_array_equal(found.signal, signal)
    np.testing.assert_array_equal(found.noise, noise)
    assert noise.sum() > 0
    assert list(errors) == ["r", "n"]
    for column, error in enumerate(errors.values()):
        assert (error.signal, error.noise) == (signal[:, column].sum(), noise[:, column].sum())
        assert error.elements == 4 * 12


def test_some_samples_are_those_with_these_numbers():
    given = samples()
    signal, noise = by_hand(given, PLAN)
    with opened(two_outputs(), given, PLAN) as runs:
        found, errors = runs.noise({}, [3, 1]), runs.measure({}, [3, 1]).errors
    np.testing.assert_array_equal(found.signal, signal[[3, 1]])
    np.testing.assert_array_equal(found.noise, noise[[3, 1]])
    assert errors["n"].noise == noise[[3, 1], 1].sum()


def test_the_float_outputs_of_a_sample_are_computed_once():
    with opened(two_outputs(), samples(), PLAN) as runs:
        assert runs.runs == 0
        runs.measure({}, [0, 1])
        assert runs.runs == 4
        runs.noise({0: None}, [1, 2])
        assert runs.runs == 7
        first = runs.expected(0)
        assert runs.runs == 7
        assert runs.expected(0) is first
        runs.run({}, 0)
        assert runs.runs == 8


def test_with_every_pair_off_nothing_differs():
    given = [{"x": np.random.default_rng(number).normal(size=(2, 8)).astype(np.float32)} for number in range(3)]
    with opened(two_outputs(), given, PLAN) as runs:
        off = dict.fromkeys(range(3))
        assert runs.noise(off).noise.tolist() == [[0, 0]] * 3
        assert all(error.exact for error in runs.measure(off).errors.values())
        for number, sample in enumerate(given):
            floats = run(two_outputs(), sample)[:2]
            # Kernels may sum eight products in any order, with eight roundings.
            bound = 8 * 2**-23 * np.abs(sample["x"]) @ np.abs(WEIGHT)
            for found, expected in zip(runs.expected(number).values(), floats, strict=True):
                assert (np.abs(found - expected) <= bound).all()


def test_an_output_without_a_float_type_is_left_out():
    with opened(two_outputs(), samples(), PLAN) as runs:
        assert list(runs.run({}, 0)) == ["r", "n"]


def test_a_model_without_float_outputs_has_no_noise():
    model = two_outputs()
    del model.graph.output[:2]
    model.graph.node.pop()
    with opened(model, samples(), PLAN) as runs:
        assert runs.outputs == []
        assert runs.noise({}).noise.shape == (4, 0)
        assert runs.measure({}).errors == {}


def test_values_that_are_not_finite():
    """1/x: infinite in the float model where x is 0, and in the quantized one where x is rounded to 0."""
    model = make_model([helper.make_node("Reciprocal", ["x"], ["y"])], {"x": (3,)}, {"y": (3,)}, {})
    given = [{"x": np.array(row, np.float32)} for row in ([4, 2, 8], [4, 1, 2], [4, 0, 1], [4, 0, 2])]
    with opened(model, given, (pair("x", 4, "y"),)) as runs:
        found, errors = runs.noise({}), runs.measure({}).errors
    # 4 stays, 8 stays, 2 and 1 become 0 (halves to even), and 1/0 is infinite.
    assert found.noise[:, 0].tolist() == [np.inf, np.inf, np.inf, np.inf]
    assert found.signal[:, 0].tolist() == [1 / 16 + 1 / 4 + 1 / 64, 1 / 16 + 1 + 1 / 4, 1 / 16 + 1, 1 / 16 + 1 / 4]
    error = errors["y"]
    assert (error.nonfinite, error.nonfinite_mismatches, error.noise) == (2, 5, 0)
    assert error.signal == 4 / 16 + 1 / 64


def test_boxes_of_another_number_count_for_nothing():
    """Scores that are rounded to 0 are below the threshold: another number of boxes is selected."""
    model = make_model(
        [
            helper.make_node("Relu", ["scores"], ["s"]),
            helper.make_node("NonMaxSuppression", ["boxes", "s", "most", "overlap", "least"], ["kept"]),
            helper.make_node("Cast", ["kept"], ["y"], to=TensorProto.FLOAT),
        ],
        {"boxes": (1, 3, 4), "scores": (1, 1, 3)},
        {"y": ("N", 3)},
        {"most": np.array([3]), "overlap": np.array([0.5], np.float32), "least": np.array([0.25], np.float32)},
    )
    boxes = np.array([[[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]]], np.float32)
    given = [{"boxes": boxes, "scores": np.array([[row]], np.float32)} for row in ([4, 1, 8], [4, 8, 4])]
    with opened(model, given, (pair("s", 4, "kept", 1),)) as runs:
        found, errors = runs.noise({}), runs.measure({}).errors
    assert found.signal[:, 0].tolist() == [0, 5]
    assert found.noise[:, 0].tolist() == [0, 0]
    assert (errors["y"].other_shapes, errors["y"].elements) == (1, 9)


def test_a_sample_on_which_a_node_fails_is_an_error():
    model = make_model([helper.make_node("Reshape", ["x", "shape"], ["y"])], {"x": (4,)}, {"y": ("a", "b")}, {})
    model.graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, (2,)))
    given = [{"x": np.ones(4, np.float32), "shape": np.array([3, 5])}]
    with opened(model, given, (pair("x", 4, "y"),)) as runs, pytest.raises(RunError):
        runs.noise({})


def test_a_model_that_onnxruntime_refuses_is_an_error():
    model = make_model([helper.make_node("Relu", ["x"], ["y"], nonsense=1)], {"x": (4,)}, {"y": (4,)}, {})
    with pytest.raises(ModelError):
        opened(model, [], (pair("x", 4, "y"),))


def test_a_model_that_onnxruntime_optimizes_wrongly_runs_without_optimizations():
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Pad", ["r", "pads"], ["p"]),
        helper.make_node("MaxPool", ["p"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    pads = {"pads": np.array([0, 0, 2, 2, 0, 0, 2, 2])}
    model = make_model(nodes, {"x": (1, 1, 2, 2)}, {"y": (1, 1, 3, 3)}, pads)
    with pytest.raises(ModelError, match="Pad should be smaller than kernel"):
        Session(Model(model), Profile.OPTIMIZED)
    with opened(model, [{"x": np.array([[[[1, 2], [3, 5]]]], np.float32)}], (pair("r", 4, "p"),)) as runs:
        assert runs.expected(0)["y"][0, 0].tolist() == [[0, 0, 0], [0, 5, 0], [0, 0, 0]]
        assert runs.run({}, 0)["y"][0, 0].tolist() == [[0, 0, 0], [0, 4, 0], [0, 0, 0]]


DEPTH, COUNT = 4, 30


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Planned]:
    """A network of 16 classes with outliers, 4 predictions a sample; the labels are what it says itself."""
    model, given = chain(DEPTH, uneven=300), samples_of(count=COUNT)
    save(tmp_path, model, given)
    labels = np.stack([y.argmax(axis=-1) for (y,) in outputs(model, given)])
    np.savez(tmp_path / "d.npz", x=np.stack([each["x"] for each in given]), labels=labels)
    with planned(tmp_path) as found:
        yield found


def top_1(made: Planned, sites: Collection[int], first: int | None = None) -> float:
    """Percentage of right predictions on the choosing samples of a model that has only these pairs."""
    kept = QuantPlan(tuple(place for number, place in enumerate(made.plan) if number in sites))
    plain = [dict(sample) for sample in made.choosing][:first]
    right = outputs(made.ready.proto, plain)
    found = outputs(made.applied(kept), plain)
    return 100 * float(
        np.mean([a.argmax(axis=-1) == x.argmax(axis=-1) for (a,), (x,) in zip(right, found, strict=True)])
    )


def opened_layers(made: Planned) -> LayerRuns:
    return LayerRuns.of(made.ready, made.plan, made.prepared, made.choosing)


def switched(numbers: Sequence[int]) -> dict[int, None]:
    return dict.fromkeys(numbers)


def test_each_setting_has_the_metric_of_the_model_with_its_pairs_on_all_samples(made: Planned) -> None:
    with opened_layers(made) as session:
        assert len(session.runs.samples) < len(made.choosing), "the metric is measured on more samples than noise"
        runs = MetricRuns.of(load_metric("top-1"), session.runs, made.choosing)
        every = range(len(session.masked.sites))
        assert len(every) == len(made.plan)
        assert runs.score_float().value == 100
        assert runs.score_float().predictions == 4 * len(made.choosing)
        values = []
        for on in ((), every, (every[0],), (every[-1],), every[2:]):
            score = runs.score(switched([number for number in every if number not in on]), "the model")
            assert score.value == pytest.approx(top_1(made, on))
            values.append(score.value)
        assert len(set(values)) > 2


def test_the_first_samples_are_the_first_of_the_data(made: Planned) -> None:
    with opened_layers(made) as session:
        runs = MetricRuns.of(load_metric("top-1"), session.runs, made.choosing)
        whole, few = runs.score({}, "the model"), runs.first(5).score({}, "the model")
        assert (whole.predictions, few.predictions) == (4 * len(made.choosing), 20)
        assert few.value == pytest.approx(top_1(made, range(len(made.plan)), 5))
        assert few.value != whole.value


def test_a_function_gets_all_outputs_of_each_sample_with_its_labels(made: Planned) -> None:
    got: list[tuple[list[dict[str, np.ndarray]], list[np.ndarray | None]]] = []

    def function(found: list[dict[str, np.ndarray]], labels: list[np.ndarray | None]) -> float:
        got.append((found, labels))
        return 1.0

    with opened_layers(made) as session:
        runs = MetricRuns.of(load_metric(function), session.runs, made.choosing)
        runs.score_float()
    ((found, labels),) = got
    plain = [dict(sample) for sample in made.choosing]
    expected = [y for (y,) in outputs(made.ready.proto, plain)]
    assert all(set(each) == {"y"} for each in found)
    assert np.allclose([each["y"] for each in found], expected, rtol=1e-4, atol=1e-4)
    told = [each.reshape(4) for each in labels if each is not None]
    assert np.array_equal(told, [each.argmax(axis=-1) for each in expected])


def test_labels_that_are_not_there_are_missed_before_any_run(made: Planned) -> None:
    unlabelled = replace(made.choosing, description=replace(made.choosing.description, seed=1))
    with opened_layers(made) as session:
        before = session.runs.runs
        with pytest.raises(NoLabelsError):
            MetricRuns.of(load_metric("top-1"), session.runs, unlabelled)
        assert session.runs.runs == before
