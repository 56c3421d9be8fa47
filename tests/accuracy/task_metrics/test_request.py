"""Requests for metrics: names, scripts and callables, and the labels that each needs."""

from pathlib import Path

import numpy as np
import pytest

from qdqtool.accuracy.task_metrics.measure import NamedMeasure
from qdqtool.accuracy.task_metrics.request import FunctionMeasure, labelled_for, load_metric
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.samples.feeds import Feeds, load_feeds
from qdqtool.samples.sample import NoLabelsError
from qdqtool.samples.signature import InputSpec


def script(folder: Path, body: str = "def score(outputs, labels):\n    return 0.5\n") -> Path:
    path = folder / "metric.py"
    path.write_text(body)
    return path


def test_a_name_a_script_and_a_callable_are_told_apart(tmp_path: Path) -> None:
    named, scripted, called = load_metric("top-1:s"), load_metric(f"{script(tmp_path)}:score"), load_metric(max)
    assert isinstance(named, NamedMeasure)
    assert (named.name, named.output, named.needs_labels) == ("top-1", "s", True)
    assert isinstance(scripted, FunctionMeasure)
    assert (scripted.name, scripted.needs_labels) == ("score", False)
    assert isinstance(called, FunctionMeasure)
    assert called.function.function is max


def test_a_script_is_executed_when_it_is_loaded_and_only_then(tmp_path: Path) -> None:
    body = "from pathlib import Path\nwith open(Path(__file__).parent / 'log', 'a') as log: log.write('x')\n"
    metric = load_metric(f"{script(tmp_path, body + 'def score(outputs, labels): return 1.0')}:score")
    for model in ("one", "two"):
        assert metric.measure([]).tally(model).score().value == 1
    assert (tmp_path / "log").read_text() == "x"


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("none.py:score", "script none.py: no such file", None),
        ("metric.py", "--metric metric.py: which function of the script?", "`--metric metric.py:FUNCTION`"),
        (
            "metric.py:scor",
            "metric.py has no function 'scor'; did you mean 'score'?",
            "define scor(), taking the outputs and the labels of all samples, or name another: metric.py:func",
        ),
    ],
)
def test_a_script_that_is_not_there_or_lacks_the_function_is_refused(
    word: str, message: str, hint: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        load_metric(word)
    assert (refused.value.message, refused.value.hint) == (message, hint)


def test_a_script_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    path = script(tmp_path, "\n1 / 0\n")
    with pytest.raises(UsageError, match=r"metric\.py raised ZeroDivisionError in line 2: division by zero"):
        load_metric(f"{path}:score")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ArgumentError, match="metric 'top' is unknown"):
        load_metric("top:s")


def feeds(folder: Path, **arrays: np.ndarray) -> Feeds:
    np.savez(folder / "d.npz", **arrays)
    return load_feeds(folder / "d.npz", (InputSpec("x", np.dtype(np.float32), ("n", 2)),))


def test_labels_are_needed_by_a_name_and_may_be_missing_for_a_function(tmp_path: Path) -> None:
    x = np.zeros((3, 2), np.float32)
    without = feeds(tmp_path, x=x)
    with pytest.raises(NoLabelsError, match="has no right answers"):
        labelled_for(load_metric("top-1"), without)
    assert [sample.labels for sample in labelled_for(load_metric(max), without)] == [None] * 3
    for request in ("top-1", max):
        found = labelled_for(load_metric(request), feeds(tmp_path, x=x, labels=np.arange(3)))
        assert [sample.labels.tolist() for sample in found] == [[0], [1], [2]]


def test_labels_of_another_number_are_refused_for_a_function_too(tmp_path: Path) -> None:
    bad = feeds(tmp_path, x=np.zeros((3, 2), np.float32), labels=np.arange(2))
    with pytest.raises(UsageError, match="'labels' has 2 rows"):
        labelled_for(load_metric(max), bad)
