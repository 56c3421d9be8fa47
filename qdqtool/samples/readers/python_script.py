"""Python scripts: ``FILE.py`` or ``FILE.py:func``. The function (default ``load_data``) yields dicts of arrays.

Only the script that the user names is executed. It is loaded once. Each pass over the data calls the function again,
so the function must yield the same samples each time. Only one sample is kept in memory.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.sample import LABELS, NoLabelsError, Sample, labels_taken_error
from qdqtool.samples.script import UserFunction, load_function, split_script
from qdqtool.samples.signature import InputSpec

ACCEPTS = "Python script FILE.py[:func]"
DEFAULT_FUNCTION = "load_data"


def accepts(path: Path) -> bool:
    """Return whether ``path`` is a Python file, optionally followed by a function name."""
    split = split_script(str(path))
    return split is not None and split[0].is_file()


@dataclass(frozen=True, slots=True)
class ScriptSamples:
    """The samples that the function yields; each iteration calls the function again.

    Attributes:
        function: The function.
        takes_labels: Whether the model has an input named :data:`~qdqtool.samples.sample.LABELS`.
        labelled: Whether samples have labels; the function yields them under that key.
    """

    function: UserFunction
    takes_labels: bool = False
    labelled: bool = False

    def __iter__(self) -> Iterator[Sample]:
        where = self.function.where
        with self.function.running():
            produced = iter(self.function.function())
        for number in itertools.count():
            with self.function.running():
                sample = next(produced, None)
            if sample is None:
                return
            yield self._sample(_arrays(sample, f"{where}, sample {number}"), number)

    def with_labels(self) -> "ScriptSamples":
        """Return the same samples with labels.

        Raises:
            NoLabelsError: The first sample has no labels.
        """
        if self.takes_labels:
            raise labels_taken_error(self.function.where)
        found = replace(self, labelled=True)
        next(iter(found), None)
        return found

    def _sample(self, arrays: dict[str, Array], number: int) -> Sample:
        labels = None if self.takes_labels else arrays.pop(LABELS, None)
        if not self.labelled:
            return Sample(arrays)
        if labels is None:
            problem = NoLabelsError if not number else UsageError
            raise problem(
                f"{self.function.where}, sample {number} has no labels for the metric",
                hint=f"yield them in the dict of each sample, under the key '{LABELS}'",
            )
        return Sample(arrays, labels=labels)


def read(path: Path, specs: Sequence[InputSpec]) -> ScriptSamples:
    """Execute a script and return its samples."""
    split = split_script(str(path))
    assert split is not None
    file, name = split
    function = load_function(file, name or DEFAULT_FUNCTION, "yielding one dict of arrays for each run")
    return ScriptSamples(function, takes_labels=LABELS in [spec.name for spec in specs])


def _arrays(sample: Any, where: str) -> dict[str, Array]:
    if not isinstance(sample, Mapping):
        raise UsageError(f"{where} is a {type(sample).__name__}, no dict of arrays by input name")
    arrays: dict[str, Array] = {}
    for name, value in sample.items():
        try:
            arrays[str(name)] = np.asarray(value)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{where}: input '{name}' is no array: {error}") from None
        if arrays[str(name)].dtype.hasobject:
            raise UsageError(f"{where}: input '{name}' holds Python objects of type {type(value).__name__}, no numbers")
    return arrays
