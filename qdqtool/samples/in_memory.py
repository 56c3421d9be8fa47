"""Data that Python code passes: arrays, lists, generators and data loaders. It is divided into samples like npz files.

A list or a dict of arrays stays in memory. Any other iterable is read once, and its items are kept in a temporary file,
because a job reads its data several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from qdqtool.errors import ArgumentError, UsageError, plural
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.columns import common_count, fit_labels, make_column, make_samples, settle_columns, slice_rows
from qdqtool.samples.sample import LABELS, NoLabelsError, Sample, labels_taken_error
from qdqtool.samples.signature import InputSpec, check_names, needed
from qdqtool.samples.spool import Item, SpooledItems

ACCEPTED = (
    "a path, an array, a dict of arrays by input name, a list or another iterable of arrays or of such dicts, or a "
    "DataLoader"
)
"""The accepted kinds of Python data, for messages."""


@dataclass(frozen=True, slots=True)
class InMemoryData:
    """Data without a file.

    Attributes:
        items: The items; each item has the arrays of one or several samples.
        source: The name of the data in reports and messages: ``array``, ``generator``, …
        is_one: Whether there is only one item; messages then give no item number.
        is_loader: Whether the data is a data loader; its tuples may be inputs followed by labels.
    """

    items: Iterable[Item] = field(repr=False)
    source: str
    is_one: bool = False
    is_loader: bool = False

    def __str__(self) -> str:
        return self.source

    @property
    def hint_if_empty(self) -> str | None:
        """What to do if the data has no samples."""
        return None if self.is_one else "an iterator can be read once: make a new one, or keep it with hold_data(...)"

    def read(self, specs: Sequence[InputSpec]) -> HeldSamples:
        """Return the samples for the inputs of a model."""
        return HeldSamples(self, tuple(specs))


DataPlace = Path | InMemoryData
"""Where data is: a file, a folder or a script, or memory."""


def in_files(places: Iterable[DataPlace | None]) -> list[Path]:
    """Return the paths among the places."""
    return [place for place in places if isinstance(place, Path)]


def hold_data(data: object) -> InMemoryData:
    """Accept data of any supported kind that is not a path. An iterator is not read yet.

    Args:
        data: An array; a mapping of arrays by input name; or an iterable of arrays, of mappings, or of tuples in the
            order of the inputs. An array is any object with ``__array__``, ``.numpy()`` or ``__dlpack__``.

    Raises:
        ArgumentError: The data is of another kind.
        UsageError: An array does not hold numbers.
    """
    if isinstance(data, InMemoryData):
        return data
    if isinstance(data, str | Path):
        raise ArgumentError(f"data is the path '{data}', which can be read again: pass the path itself")
    if _is_array(data) or isinstance(data, Mapping):
        source = "dict of arrays" if isinstance(data, Mapping) else "array"
        return InMemoryData((_item(data, source),), source, is_one=True)
    if not isinstance(data, Iterable) or isinstance(data, bytes | bytearray):
        raise ArgumentError(
            f"data is of type {type(data).__name__}; legal: {ACCEPTED}",
            hint="wrap the data set: DataLoader(dataset)" if hasattr(data, "__getitem__") else None,
        )
    source = type(data).__name__
    if isinstance(data, list | tuple):
        return InMemoryData(tuple(_item(each, f"{source}, item {number}") for number, each in enumerate(data)), source)
    spooled = SpooledItems(_Taker(data, source), source, is_endless=not hasattr(data, "__len__"))
    return InMemoryData(spooled, source, is_loader=hasattr(data, "dataset"))


@dataclass(frozen=True, slots=True)
class HeldSamples:
    """The samples of data in memory.

    Attributes:
        data: The data.
        specs: Inputs of the model, and former inputs that are constants now.
        labelled: Whether samples have their labels.
    """

    data: InMemoryData
    specs: tuple[InputSpec, ...]
    labelled: bool = False

    def __iter__(self) -> Iterator[Sample]:
        for number, item in enumerate(self.data.items):
            place = self.data.source if self.data.is_one else f"{self.data.source}, item {number}"
            yield from self._samples(self._named(item, place), place)

    def with_labels(self) -> HeldSamples:
        """Return the same samples with the labels of each item: a row of labels for each row of the inputs.

        Raises:
            NoLabelsError: The first item has no labels.
        """
        if self._takes_labels():
            raise labels_taken_error(self.data)
        found = replace(self, labelled=True)
        next(iter(found), None)
        return found

    def _takes_labels(self) -> bool:
        return LABELS in [spec.name for spec in self.specs]

    def _named(self, item: Item, place: str) -> dict[str, Array]:
        """Return the arrays of an item, including labels, by name."""
        if item.names is not None:
            return dict(zip(item.names, item.arrays, strict=True))
        names = [spec.name for spec in needed(self.specs)]
        wanted = f"the model has {plural(len(names), 'input')}: {', '.join(names) or 'none'}"
        given = plural(len(item.arrays), "array")
        if self.data.is_loader and len(names) > 1:
            raise UsageError(
                f"{place} has {given} without names; {wanted}",
                hint="let the loader give dicts by input name, since a tuple may hold labels too",
            )
        if len(item.arrays) == len(names) + 1 and not self._takes_labels():
            names.append(LABELS)
        if len(item.arrays) != len(names):
            raise UsageError(f"{place} has {given}; {wanted}", hint="give dicts of arrays by input name")
        return dict(zip(names, item.arrays, strict=True))

    def _samples(self, arrays: dict[str, Array], place: str) -> Iterator[Sample]:
        labels = None if self._takes_labels() else arrays.pop(LABELS, None)
        check_names(arrays, self.specs, place)
        held = [spec for spec in self.specs if spec.name in arrays]
        described = (make_column(spec, arrays[spec.name].dtype, arrays[spec.name].shape, place) for spec in held)
        columns = settle_columns(tuple(described), held)
        count = common_count(columns, place)
        rows = {column.name: slice_rows(arrays[column.name], column) for column in columns}
        answers = None
        if self.labelled:
            if labels is None:
                raise self._no_labels(place)
            column = make_column(InputSpec(LABELS, labels.dtype, None), labels.dtype, labels.shape, place)
            answers = slice_rows(labels, fit_labels(column, columns, count, place))
        yield from make_samples(rows, columns, count, answers)

    def _no_labels(self, place: str) -> UsageError:
        is_first = self.data.is_one or place.endswith(", item 0")
        problem = NoLabelsError if is_first else UsageError
        return problem(
            f"{place} has no labels for the metric", hint=f"give them in the dict of arrays, under the key '{LABELS}'"
        )


class _Taker:
    """Takes items from an iterable of the user. Errors of the iterable become one-line messages."""

    def __init__(self, data: Iterable[Any], source: str) -> None:
        self._data, self._source = data, source
        self._iterator: Iterator[Any] | None = None

    def __call__(self, number: int) -> Item | None:
        try:
            if self._iterator is None:
                self._iterator = iter(self._data)
            given = next(self._iterator, self)
        except Exception as error:
            raise UsageError(
                f"{self._source} raised {type(error).__name__} at item {number}: {_last_line(error)}"
            ) from error
        return None if given is self else _item(given, f"{self._source}, item {number}")


def _item(given: object, place: str) -> Item:
    if isinstance(given, Mapping):
        names = tuple(map(str, given))
        return Item(
            tuple(_array(value, f"{place}: '{name}'") for name, value in zip(names, given.values(), strict=True)), names
        )
    # torch's DataLoader turns tuples of a data set into lists. Any other list is an array, written as a Python list.
    if isinstance(given, tuple) or (isinstance(given, list) and given and all(map(_is_array, given))):
        return Item(tuple(_array(value, f"{place}: array {number}") for number, value in enumerate(given)))
    return Item((_array(given, place),))


def _last_line(error: Exception) -> str:
    """Return the last line of an error, because an error in a worker of a data loader begins with the traceback."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), "no message")


def _is_array(value: object) -> bool:
    return any(hasattr(value, name) for name in ("__array__", "numpy", "__dlpack__")) and not isinstance(value, type)


def _array(value: Any, place: str) -> Array:
    try:
        array = _to_numpy(value)
    except Exception as error:
        raise UsageError(
            f"{place} of type {type(value).__name__} is no array: {_last_line(error)}",
            hint="give arrays of numbers, such as float32",
        ) from error
    # NumPy saves types of other packages, such as bfloat16, as bytes without their meaning.
    if array.dtype.kind not in "biufc" or array.dtype.isbuiltin == 2:
        raise UsageError(
            f"{place} of type {type(value).__name__} holds {array.dtype}, which NumPy does not know as numbers",
            hint="give arrays of numbers, such as float32",
        )
    return array


def _to_numpy(value: Any) -> Array:
    """Return a value as an array. A PyTorch tensor is detached from its gradient and copied to the CPU first."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
    if hasattr(value, "__array__") or not _is_array(value):
        return np.asarray(value)
    return np.asarray(value.numpy()) if hasattr(value, "numpy") else np.from_dlpack(value)
