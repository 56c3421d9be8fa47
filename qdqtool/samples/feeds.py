"""Samples that match the inputs of a model and can be iterated repeatedly."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import FLOAT16, Array
from qdqtool.registry import load_unit, unit_names
from qdqtool.samples import readers
from qdqtool.samples.in_memory import DataPlace, InMemoryData
from qdqtool.samples.media.images.samples import ImageSamples, write_preview
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.preprocessing import Preprocessing
from qdqtool.samples.report import DataDescription
from qdqtool.samples.sample import Converted, NoLabelsError, Sample, Samples, WithoutStored, labelled, sample_digest
from qdqtool.samples.signature import InputSpec, check_names, fits, needed


@dataclass(slots=True)
class Survey:
    """Counts samples as they are read.

    Attributes:
        samples: Number of samples.
        repeated: Number of samples that are equal to an earlier one.
        constant: Number of constant samples: each input with several elements has one value in all elements.
        first: Number (from 0) and value of the first constant sample.
    """

    samples: int = 0
    repeated: int = 0
    constant: int = 0
    first: tuple[int, object] | None = None
    _seen: set[bytes] = field(default_factory=set)

    def add(self, sample: Mapping[str, Array]) -> None:
        """Count a sample."""
        digest = sample_digest(sample)
        self.repeated += digest in self._seen
        self._seen.add(digest)
        values = [_only_value(array) for array in sample.values() if array.size > 1]
        # An input with one element is always constant. One constant input among others is usual: a mask, a first state.
        if values and None not in values:
            self.constant += 1
            self.first = self.first or (self.samples, next((value for value in values if value), values[0]))
        self.samples += 1

    def refuse_constant(self, path: object) -> None:
        """Refuse data with constant samples. A script that finds no files often makes such samples.

        Raises:
            UsageError: There is a constant sample.
        """
        if self.first is None:
            return
        number, value = self.first
        raise UsageError(
            f"{path}: {self.constant} of {self.samples} samples hold a single value: sample {number} is "
            f"{value} throughout",
            hint="check the code that makes the samples; --allow-constant-data uses them anyway",
        )


def _only_value(array: Array) -> object | None:
    first = array.reshape(-1)[0]
    return first.item() if np.all(array == first) else None


Progress = Callable[[int, int], None]
"""Called with the number of samples done and their total."""

ARRAYS = "arrays"


@dataclass(frozen=True, slots=True)
class Feeds:
    """Checked samples, one for each run. Every iteration yields the same samples.

    Attributes:
        samples: All samples; ``description.samples`` says how many of them are used.
        description: Where the samples come from, and how many there are.
    """

    samples: Samples
    description: DataDescription

    def __len__(self) -> int:
        return self.description.samples

    def __iter__(self) -> Iterator[Sample]:
        given = 0
        for sample in islice(self.samples, len(self)):
            yield sample if isinstance(sample, Sample) else Sample(sample)
            given += 1
        if given < len(self):
            raise UsageError(
                f"{self.description.source} had {len(self)} samples when they were checked, but {given} later",
                hint="the data must give the same samples each time it is read",
            )

    def renamed(self, names: Mapping[str, str]) -> "Feeds":
        """Return the same samples with new input names; ``names`` has the new name for each old name."""
        shapes = {names.get(name, name): shape for name, shape in self.description.shapes.items()}
        samples = labelled(self.samples, self.description.source)
        return Feeds(Converted(samples, names), replace(self.description, shapes=shapes))

    def with_labels(self) -> "Feeds":
        """Return the same samples with their labels.

        Raises:
            NoLabelsError: The data has no labels.
        """
        if self.description.seed is not None:
            raise NoLabelsError("random inputs have no labels for the metric", hint="name real data")
        return replace(self, samples=labelled(self.samples, self.description.source).with_labels())

    def first(self, count: int) -> "Feeds":
        """Return the first ``count`` samples."""
        return replace(self, description=replace(self.description, samples=min(count, len(self))))

    def only(self, numbers: Collection[int]) -> "Feeds":
        """Return the samples with the given numbers, in the order of the data."""
        return Feeds(_Numbered(self, frozenset(numbers)), replace(self.description, samples=len(set(numbers))))

    @property
    def numbers_in_data(self) -> Sequence[int]:
        """The numbers of the samples in the complete data, for messages; these samples may be a part of it."""
        if not isinstance(self.samples, _Numbered):
            return range(len(self))
        whole = self.samples.feeds.numbers_in_data
        return [whole[number] for number in sorted(self.samples.numbers)][: len(self)]

    def number_in_data(self, position: int) -> int:
        """Return the number that a sample at a position has in the complete data."""
        return self.numbers_in_data[position]

    def numbered(self) -> Iterator[tuple[int, Sample]]:
        """Yield each sample with its number in the complete data."""
        yield from zip(self.numbers_in_data, self, strict=True)


@dataclass(frozen=True, slots=True)
class _Numbered:
    """The samples of ``feeds`` with the given numbers."""

    feeds: Feeds
    numbers: frozenset[int]

    def __iter__(self) -> Iterator[Sample]:
        return (sample for number, sample in enumerate(self.feeds) if number in self.numbers)

    def with_labels(self) -> "_Numbered":
        """Return the same samples with labels."""
        return replace(self, feeds=self.feeds.with_labels())


def load_feeds(
    path: DataPlace,
    specs: Sequence[InputSpec],
    limit: int | None = None,
    *,
    allow_constant: bool = True,
    each: Callable[[Mapping[str, Array]], None] | None = None,
    options: ReadOptions | None = None,
) -> Feeds:
    """Open data and check every sample in one pass, before anything runs.

    Args:
        path: A file, a folder or ``SCRIPT.py:func``, or data in memory. A reader is chosen for each kind of path.
        specs: Inputs of the model, and former inputs that are constants now. Samples may repeat these constants.
        limit: Use only this number of samples, from the start.
        allow_constant: Whether samples may be constant (one value in all elements).
        each: Called once with each checked sample.
        options: Preprocessing of files that do not hold arrays. A preview is written before the samples are checked.

    Raises:
        UsageError: The file is unreadable, a sample (named in the message) does not fit the model, or the preprocessing
            of images is unknown.
    """
    read = _read(path, specs, options)
    if isinstance(read, ImageSamples) and options is not None and options.preview is not None:
        write_preview(read, limit, options.preview)
    samples = labelled(read, str(path))
    stored, specs = {spec.name: spec.value for spec in specs if spec.value is not None}, needed(specs)
    if stored:
        samples = WithoutStored(samples, stored, str(path))
    halves = {spec.name for spec in specs if spec.dtype == FLOAT16}
    if halves:
        samples = Converted(samples, halves=halves)
    survey, shapes = Survey(), dict[str, tuple[int, ...]]()
    for sample in islice(samples, limit):
        where = f"{path}, sample {survey.samples}"
        check_names(sample, specs, where)
        for spec in specs:
            _check_array(sample[spec.name], spec, where)
        survey.add(sample)
        if each is not None:
            each(sample)
        shapes = shapes or {name: array.shape for name, array in sample.items()}
    if survey.samples == 0:
        raise UsageError(f"{path} has no samples", hint=path.hint_if_empty if isinstance(path, InMemoryData) else None)
    if not allow_constant:
        survey.refuse_constant(path)
    how: Preprocessing | None = getattr(read, "preprocessing", None)
    return Feeds(samples, DataDescription(str(path), survey.samples, None, shapes, survey.repeated, how))


def _read(path: DataPlace, specs: Sequence[InputSpec], options: ReadOptions | None) -> Samples:
    """Return the samples of data in memory, or read a path with the first reader that accepts the path."""
    if isinstance(path, InMemoryData):
        if options is not None:
            options.refuse_all_but((), path, ARRAYS)
        return path.read(specs)
    for name in unit_names(readers):
        unit = load_unit(readers, name)
        if not unit.accepts(path):
            continue
        if hasattr(unit, "read_with"):
            given = _required(options, path, unit.ACCEPTS)
            given.refuse_all_but(unit.USES, path, unit.HOLDS)
            with_options: readers.OptionReader = unit.read_with
            return with_options(path, specs, given)
        if options is not None:
            options.refuse_all_but((), path, ARRAYS)
        plain: readers.Reader = unit.read
        return plain(path, specs)
    legal = ", ".join(load_unit(readers, name).ACCEPTS for name in unit_names(readers))
    if not path.exists():
        raise UsageError(f"data {path}: no such file or folder", hint=f"data may be: {legal}")
    problem = "holds no data of a known kind" if path.is_dir() else "is not of a known kind"
    raise UsageError(
        f"data {path} {problem}; legal: {legal}",
        hint="a Python script reads anything else: its load_data() yields a dict of arrays for each run",
    )


def _required(options: ReadOptions | None, path: Path, kind: str) -> ReadOptions:
    if options is None:
        raise UsageError(
            f"{path} is a {kind}, which this command cannot read, because it has no options of preprocessing",
            hint="save the inputs as .npz; or read the files in a Python script, whose load_data() yields a dict of "
            "arrays for each run",
        )
    return options


def _check_array(array: Array, spec: InputSpec, where: str) -> None:
    place = f"{where}: input '{spec.name}'"
    if array.dtype != spec.dtype:
        raise UsageError(f"{place} has type {array.dtype}; the model takes {spec.dtype}", hint=_type_hint(array, spec))
    if spec.shape is not None and not fits(array.shape, spec.shape):
        last = array.ndim == len("NHWC") and fits(np.moveaxis(array, -1, 1).shape, spec.shape)
        hint = "the channels are last in the data: array.transpose(0, 3, 1, 2)" if last else None
        raise UsageError(f"{place} has shape {list(array.shape)}; the model takes {spec}", hint=hint)
    _check_numbers(array, place)


def _type_hint(array: Array, spec: InputSpec) -> str:
    hint = f"convert it first: array.astype('{spec.dtype}')"
    if array.dtype == np.uint8 and np.dtype(spec.dtype).kind == "f":
        return (
            f"{hint}; for images, convert the range too: most networks take 0 to 1 or normalized values, not 0 to 255"
        )
    return hint


def _check_numbers(array: Array, place: str) -> None:
    """Raise UsageError for NaN and infinity. Minus infinity is accepted, since additive masks hold it."""
    if array.dtype.kind not in "fc" or np.isfinite(array).all():
        return
    bad = ~(np.isfinite(array) | np.isneginf(array.real))
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise UsageError(
            f"{place} is {array[first]} at {list(first)}; every value must be finite, or minus infinity as in masks"
        )
