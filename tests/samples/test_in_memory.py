"""Data in memory is divided into the same samples as the same values in files."""

import contextlib
import itertools
import math
from collections import UserList
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.in_memory import ACCEPTED, InMemoryData, hold_data, in_files
from qdqtool.samples.sample import NoLabelsError, data_digest, sample_digest
from qdqtool.samples.signature import InputSpec

F32 = np.dtype(np.float32)
X = (InputSpec("x", F32, ("N", 2, 3)),)
FOUR = (InputSpec("x", F32, (4, 2, 3)),)
XY = (*X, InputSpec("mask", np.dtype(np.int64), ("N", 5)))
ROWS = np.random.default_rng(3).normal(size=(6, 2, 3)).astype(np.float32)
MASKS = np.arange(30).reshape(6, 5)


class Tensor:
    """Looks like a tensor of PyTorch that needs a gradient, on a GPU."""

    def __init__(self, array: np.ndarray, *, is_ready: bool = False) -> None:
        self._array, self._is_ready = array, is_ready

    def detach(self) -> "Tensor":
        return self

    def cpu(self) -> "Tensor":
        return Tensor(self._array, is_ready=True)

    def numpy(self) -> np.ndarray:
        if not self._is_ready:
            raise RuntimeError("can't convert")
        return self._array


class Loader:
    """Looks like PyTorch's DataLoader: batches of tensors, in a list with their labels."""

    def __init__(self, rows: np.ndarray, batch: int, labels: np.ndarray | None = None) -> None:
        self.dataset, self._batch, self._labels = rows, batch, labels

    def __len__(self) -> int:
        return math.ceil(len(self.dataset) / self._batch)

    def __iter__(self) -> Iterator[Any]:
        for at in range(0, len(self.dataset), self._batch):
            rows = Tensor(self.dataset[at : at + self._batch])
            yield rows if self._labels is None else [rows, Tensor(self._labels[at : at + self._batch])]


def digest(feeds: Any) -> str:
    return data_digest(sample_digest(sample) for sample in feeds)


def from_npz(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


KINDS: dict[str, Callable[[], object]] = {
    "array": lambda: ROWS,
    "fortran": lambda: np.asfortranarray(ROWS),
    "dict": lambda: {"x": ROWS},
    "tensor": lambda: Tensor(ROWS),
    "list-of-arrays": lambda: [row[None] for row in ROWS],
    "list-of-dicts": lambda: [{"x": row[None]} for row in ROWS],
    "batches": lambda: [ROWS[:1], ROWS[1:4], ROWS[4:]],
    "generator": lambda: (row[None] for row in ROWS),
    "generator-of-dicts": lambda: ({"x": Tensor(row[None])} for row in ROWS),
    "generator-of-tuples": lambda: ((row[None],) for row in ROWS),
    "iterable": lambda: UserList(row[None] for row in ROWS),
    "loader": lambda: Loader(ROWS, 4),
    "labelled-loader": lambda: Loader(ROWS, 4, np.arange(6)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_samples_of_a_file_in_every_pass(tmp_path: Path, kind: str) -> None:
    wanted = load_feeds(from_npz(tmp_path, x=ROWS), X)
    feeds = load_feeds(hold_data(KINDS[kind]()), X)
    assert (len(feeds), digest(feeds), digest(feeds)) == (6, digest(wanted), digest(wanted))
    assert feeds.description.shapes == wanted.description.shapes
    assert digest(load_feeds(hold_data(ROWS + 1), X)) != digest(wanted)


@pytest.mark.parametrize("kind", ["array", "dict", "loader", "generator-of-batches"])
def test_a_model_with_a_fixed_batch_gets_its_rows_and_padding(tmp_path: Path, kind: str) -> None:
    wanted = load_feeds(from_npz(tmp_path, x=ROWS), FOUR)
    data = (ROWS[at : at + 4] for at in (0, 4)) if kind == "generator-of-batches" else KINDS[kind]()
    feeds = load_feeds(hold_data(data), FOUR)
    assert digest(feeds) == digest(wanted)
    assert [sample.filler for sample in feeds] == [0, 2]


@pytest.mark.parametrize(
    "data",
    [
        {"x": ROWS, "mask": MASKS},
        [(row[None], mask[None]) for row, mask in zip(ROWS, MASKS, strict=True)],
        [{"mask": mask[None], "x": row[None]} for row, mask in zip(ROWS, MASKS, strict=True)],
    ],
    ids=["dict", "tuples", "dicts"],
)
def test_several_inputs_are_told_by_name_or_order(tmp_path: Path, data: object) -> None:
    wanted = load_feeds(from_npz(tmp_path, x=ROWS, mask=MASKS), XY)
    assert digest(load_feeds(hold_data(data), XY)) == digest(wanted)


@pytest.mark.parametrize("specs", [X, FOUR], ids=["dynamic", "four"])
@pytest.mark.parametrize(
    "data",
    [{"x": ROWS, "labels": np.arange(6)}, Loader(ROWS, 4, np.arange(6)), [(ROWS, np.arange(6))]],
    ids=["dict", "loader", "tuple"],
)
def test_labels_come_with_the_inputs_as_in_files(tmp_path: Path, data: object, specs: tuple[InputSpec, ...]) -> None:
    wanted = load_feeds(from_npz(tmp_path, x=ROWS, labels=np.arange(6)), specs).with_labels()
    found = load_feeds(hold_data(data), specs).with_labels()
    assert [sample.labels.tolist() for sample in found] == [sample.labels.tolist() for sample in wanted]
    assert digest(found) == digest(wanted)


def test_data_without_labels_says_where_to_put_them() -> None:
    for data in (ROWS, [{"x": ROWS}], (row[None] for row in ROWS)):
        with pytest.raises(NoLabelsError, match="no labels for the metric") as caught:
            load_feeds(hold_data(data), X).with_labels()
        assert "'labels'" in caught.value.hint
    some = [{"x": ROWS[:1], "labels": [0]}, {"x": ROWS[1:2]}]
    with pytest.raises(UsageError, match="list, item 1 has no labels for the metric") as refused:
        list(load_feeds(hold_data(some), X).with_labels())
    assert not isinstance(refused.value, NoLabelsError)
    with pytest.raises(UsageError, match="'labels' has 5 rows, but the inputs have other numbers of rows: x 6"):
        list(load_feeds(hold_data({"x": ROWS, "labels": np.arange(5)}), X).with_labels())
    labels = (InputSpec("labels", F32, ("N", 2, 3)),)
    with pytest.raises(NoLabelsError, match="is an input of the model"):
        load_feeds(hold_data({"labels": ROWS}), labels).with_labels()


def failing() -> Iterator[np.ndarray]:
    yield ROWS[:1]
    yield ROWS[1:2]
    raise ValueError("the disk is gone")


def worker() -> Iterator[np.ndarray]:
    raise RuntimeError("Caught OSError in worker 0.\nTraceback (most recent call last):\nOSError: gone\n")
    yield ROWS


class DataSet:
    def __getitem__(self, index: int) -> np.ndarray:
        return ROWS[index]


def test_a_data_set_without_a_loader_is_told() -> None:
    with pytest.raises(ArgumentError, match="data is of type DataSet; legal") as caught:
        hold_data(DataSet())
    assert caught.value.hint == "wrap the data set: DataLoader(dataset)"


WRONG: dict[str, tuple[Callable[[], object], tuple[InputSpec, ...], str]] = {
    "nothing": (lambda: iter(()), X, "tuple_iterator has no samples"),
    "empty list": (list, X, "list has no samples"),
    "no rows": (lambda: ROWS[:0], X, "array has no samples"),
    "strings": (lambda: (word for word in ("a", "b")), X, "generator, item 0 of type str holds <U1, which NumPy"),
    "strings later": (lambda: iter([ROWS, "b"]), X, "list_iterator, item 1 of type str holds <U1"),
    "None": (lambda: [ROWS, None], X, "list, item 1 of type NoneType holds object"),
    "ragged": (lambda: [[[1.0], [1.0, 2.0]]], X, "list, item 0 of type list is no array: setting an array element"),
    "object in a dict": (lambda: {"x": [object()]}, X, "dict of arrays: 'x' of type list holds object"),
    "missing key": (lambda: ({"x": ROWS[:1]} for _ in range(2)), XY, "generator, item 0: input 'mask' is missing"),
    "missing key later": (lambda: [{"x": ROWS}, {"y": ROWS}], X, "list, item 1: 'y' is no input of the model"),
    "misspelt": (lambda: {"X ": ROWS}, X, "'X ' is no input of the model; its inputs: x"),
    "rank": (lambda: iter([ROWS, ROWS[0, 0]]), X, r"list_iterator, item 1 has shape \[3\]; the model takes x"),
    "shape": (lambda: iter([ROWS[:2], ROWS[:, :1]]), X, r"list_iterator, sample 2: input 'x' has shape \[1, 1, 3\]"),
    "type": (
        lambda: ROWS.astype(np.float64),
        X,
        "array, sample 0: input 'x' has type float64; the model takes float32",
    ),
    "not finite": (lambda: iter([ROWS, ROWS * np.nan]), X, r"list_iterator, sample 6: input 'x' is nan at \[0, 0, 0\]"),
    "at once": (lambda: map(int.__truediv__, [1], [0]), X, "map raised ZeroDivisionError at item 0: division by zero"),
    "traceback": (worker, X, "generator raised RuntimeError at item 0: OSError: gone$"),
    "raises": (failing, X, "generator raised ValueError at item 2: the disk is gone"),
    "one array": (lambda: ROWS, XY, "array has 1 array; the model has 2 inputs: x, mask"),
    "too many": (lambda: [(ROWS, ROWS, ROWS)], X, "list, item 0 has 3 arrays; the model has 1 input: x"),
    "loader": (lambda: Loader(ROWS, 2, MASKS), XY, "Loader, item 0 has 2 arrays without names"),
    "counts": (lambda: {"x": ROWS, "mask": MASKS[:4]}, XY, "different number of samples for each input: x 6, mask 4"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_data_is_told_in_one_line_with_the_sample(case: str) -> None:
    make, specs, message = WRONG[case]
    with pytest.raises(UsageError, match=message) as caught:
        load_feeds(hold_data(make()), specs)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("data", [3, None, b"x", object(), np.ndarray], ids=lambda data: type(data).__name__)
def test_what_is_no_data_is_told_what_is(data: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        hold_data(data)
    assert caught.value.message == f"data is of type {type(data).__name__}; legal: {ACCEPTED}"


def test_held_data_is_kept_as_it_is_and_a_path_is_not_held() -> None:
    held = hold_data(ROWS)
    assert hold_data(held) is held
    for path in ("data.npz", Path("data.npz")):
        with pytest.raises(ArgumentError, match=r"data is the path 'data\.npz', which can be read again"):
            hold_data(path)


def test_an_iterator_that_failed_fails_in_the_next_pass_too() -> None:
    held = hold_data(failing())
    for _ in range(2):
        with pytest.raises(UsageError, match="generator raised ValueError at item 2: the disk is gone"):
            load_feeds(held, X)


def test_types_that_others_added_to_numpy_are_refused_since_a_file_would_lose_them() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(UsageError, match="array of type ndarray holds bfloat16, which NumPy does not know as numbers"):
        hold_data(ROWS.astype(ml_dtypes.bfloat16))


def test_an_iterator_that_never_ends_is_asked_for_the_samples_that_are_used() -> None:
    taken = itertools.count()
    endless = (ROWS[next(taken) % 6][None] for _ in itertools.count())
    feeds = load_feeds(hold_data(endless), X, 4)
    assert (len(feeds), len([*feeds]), len([*feeds]), next(taken)) == (4, 4, 4, 4)


def test_a_used_up_generator_is_told() -> None:
    spent = (row[None] for row in ROWS)
    with contextlib.closing(spent):
        list(spent)
        with pytest.raises(UsageError, match="generator has no samples") as caught:
            load_feeds(hold_data(spent), X)
    assert "make a new one" in caught.value.hint


def test_held_data_is_no_file() -> None:
    held = hold_data(ROWS)
    assert isinstance(held, InMemoryData)
    assert in_files([held, None, Path("a")]) == [Path("a")]
    assert (str(held), repr(held)) == ("array", "InMemoryData(source='array', is_one=True, is_loader=False)")
