"""The types of arguments from Python code: data of any kind, paths, shapes and values by input name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from qdqtool.samples.in_memory import DataPlace, InMemoryData, hold_data

FileName: TypeAlias = str | Path
Shapes: TypeAlias = Mapping[str, Sequence[int]]
Values: TypeAlias = Mapping[str, float | Sequence[float]]
Metric: TypeAlias = str | Callable[..., float]

DataLike: TypeAlias = str | Path | InMemoryData | Mapping[str, Any] | Iterable[Any]
"""Data: a path, an array, a dict of arrays by input name, an iterable of arrays or of such dicts, or a DataLoader."""


def as_place(data: Any) -> DataPlace:
    """Return data as a path or as data in memory.

    Raises:
        ArgumentError: The data is not of an accepted kind.
        UsageError: An array is not numeric.
    """
    if isinstance(data, str | Path):
        return Path(data)
    return data if isinstance(data, InMemoryData) else hold_data(data)
