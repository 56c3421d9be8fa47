"""A task metric in the session of a masked model, against ONNX Runtime on models with the pairs of a setting."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.layered import Planned, chain, outputs, planned, save
from support.layered import rows as samples_of

from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.masked_runs import MetricRuns
from qdqtool.accuracy.task_metrics.request import load_metric
from qdqtool.models.plan import QuantPlan
from qdqtool.samples.sample import NoLabelsError

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


def opened(made: Planned) -> LayerRuns:
    return LayerRuns.of(made.ready, made.plan, made.prepared, made.choosing)


def switched(numbers: Sequence[int]) -> dict[int, None]:
    return dict.fromkeys(numbers)


def test_each_setting_has_the_metric_of_the_model_with_its_pairs_on_all_samples(made: Planned) -> None:
    with opened(made) as session:
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
    with opened(made) as session:
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

    with opened(made) as session:
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
    with opened(made) as session:
        before = session.runs.runs
        with pytest.raises(NoLabelsError):
            MetricRuns.of(load_metric("top-1"), session.runs, unlabelled)
        assert session.runs.runs == before
