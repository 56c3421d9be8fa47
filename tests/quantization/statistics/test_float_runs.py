"""Runs of a float model: one session as long as it serves, outputs kept for comparison, memory given back."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.small import make_model, nodes_of

from qdqtool.errors import ModelError, UsageError
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.model import Model
from qdqtool.models.options import Profile
from qdqtool.models.running.ort_cpu import Session
from qdqtool.quantization.statistics.float_runs import KEPT, FloatRuns, nothing_else
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.request import open_feeds

SAMPLES = np.random.default_rng(3).normal(size=(KEPT + 2, 4)).astype(np.float32)


def doubled_then_squared(factor: float = 2) -> onnx.ModelProto:
    nodes = [helper.make_node("Mul", ["x", "k"], ["m"]), helper.make_node("Mul", ["m", "m"], ["y"])]
    return make_model(nodes, {"x": (1, 4)}, {"y": (1, 4)}, {"k": np.array([factor], np.float32)})


@pytest.fixture
def feeds(tmp_path: Path) -> Feeds:
    np.savez(tmp_path / "data.npz", x=SAMPLES)
    return open_feeds(Model(doubled_then_squared()), tmp_path / "data.npz")


@pytest.fixture
def runs() -> Iterator[FloatRuns]:
    with FloatRuns(lambda index: (index.view.main.values["m"],)) as opened:
        yield opened


def tensor(runs: FloatRuns, model: Model, name: str) -> Value:
    return runs.index_of(model).view.main.values[name]


def test_one_session_serves_all_that_was_announced(runs: FloatRuns) -> None:
    model = Model(doubled_then_squared())
    first = runs.observer(model, ())
    assert runs.observer(model, [tensor(runs, model, "m"), tensor(runs, model, "y")]) is first


def test_another_model_gets_another_session(runs: FloatRuns) -> None:
    first = runs.observer(Model(doubled_then_squared()), ())
    assert runs.observer(Model(doubled_then_squared()), ()) is not first


def test_outputs_are_those_of_the_model_that_was_asked(runs: FloatRuns, feeds: Feeds) -> None:
    given, changed = Model(doubled_then_squared()), Model(doubled_then_squared(3))
    runs.first(given, feeds)
    for model, factor in ((changed, 3), (given, 2)):
        found = [outputs["y"] for outputs in runs.first(model, feeds)]
        np.testing.assert_allclose(found, (SAMPLES[:KEPT, np.newaxis] * factor) ** 2, rtol=1e-6)


def test_what_ran_does_not_run_again(runs: FloatRuns, feeds: Feeds, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(doubled_then_squared())
    runs.observer(model, ())
    for number, sample in enumerate(feeds):
        runs.run(sample, number, feeds)
    runs.close()
    monkeypatch.setattr(FloatRuns, "run", lambda *_: pytest.fail("it ran again"))
    assert len(runs.first(model, feeds)) == KEPT


def test_outputs_that_are_kept_are_not_given_for_other_samples(runs: FloatRuns, feeds: Feeds) -> None:
    model, numbers = Model(doubled_then_squared()), [1, 2, 4]
    runs.first(model, feeds)
    found = [outputs["y"] for outputs in runs.first(model, feeds.only(numbers))]
    np.testing.assert_allclose(found, (SAMPLES[numbers, np.newaxis] * 2) ** 2, rtol=1e-6)
    assert len(runs.first(model, feeds)) == KEPT


def test_a_sample_that_fails_is_named_by_its_number_in_the_data(tmp_path: Path) -> None:
    """Sample 5 of the data is the third of the part."""
    proto = make_model([helper.make_node("Gather", ["table", "i"], ["y"])], {}, {"y": (1,)}, {"table": np.arange(4.0)})
    proto.graph.input.append(helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [1]))
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    np.savez(tmp_path / "i.npz", i=np.array([0, 1, 2, 3, 0, 9]))
    model = Model(proto)
    part = open_feeds(model, tmp_path / "i.npz").only([1, 3, 5])
    with FloatRuns() as runs, pytest.raises(UsageError, match="does not run on sample 5: "):
        runs.first(model, part)


def test_kept_outputs_hold_no_memory_of_the_session(runs: FloatRuns, feeds: Feeds) -> None:
    kept = runs.first(Model(doubled_then_squared()), feeds)
    assert all(outputs["y"].flags.owndata for outputs in kept)


def test_a_model_with_an_output_that_nothing_makes_is_refused(runs: FloatRuns) -> None:
    model = doubled_then_squared()
    model.graph.output[0].name = "absent"
    with pytest.raises(ModelError, match="'absent' is an output that nothing makes"):
        runs.observer(Model(model), ())


def test_a_model_that_only_the_optimizations_of_onnx_runtime_break_runs_without_them() -> None:
    """It fuses the Pad into the MaxPool, and then finds that the pads are not below the kernel."""
    nodes = nodes_of("p = Pad (x, pads)  y = MaxPool <kernel_shape = [1, 1]> (p)")
    pads = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    model = Model(make_model(nodes, {"x": (1, 1, 2, 2)}, {"y": (1, 1, 4, 4)}, pads))
    with pytest.raises(ModelError, match="Pad should be smaller"):
        Session(model, Profile.DEPLOYED)
    x = np.float32([[[[1, 2], [3, 4]]]])
    with FloatRuns(nothing_else) as runs:
        observer = runs.observer(model, [tensor(runs, model, "p"), tensor(runs, model, "y")])
        run = observer.run({"x": x})
        (found,) = observer.arrays(run, {"x": x}, tensor(runs, model, "y"))
    np.testing.assert_array_equal(found, np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]))
