"""The input data of a model, as a caller requests it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.growth import require_bounded
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.numerics.dtypes import Array
from qdqtool.options import Values, build
from qdqtool.samples.feeds import Feeds, load_feeds
from qdqtool.samples.in_memory import DataPlace
from qdqtool.samples.noise import random_feeds
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.signature import InputSpec, input_specs, stored_specs


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRequest:
    """The input data of a model.

    Attributes:
        path: A data file, or data in memory; None for random inputs.
        seed: Seed of random inputs.
        samples: Number of samples to use; None for all of a file, or for the default number of random samples.
        allow_constant: Whether samples of a file may be constant (one value in all elements).
        held_back: Use only the hold-out samples that ``quantize`` would choose from this data. If there are too few
            samples for that, use all.
        options: The preprocessing of files that do not hold arrays, such as images.
        input_shapes: Shapes that the user fixes, by input name.
        input_values: Values that the user fixes, by input name.
    """

    path: DataPlace | None = None
    seed: int = 0
    samples: int | None = None
    allow_constant: bool = False
    held_back: bool = False
    options: ReadOptions = field(default_factory=ReadOptions)
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    input_values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileData:
    """Calibration data from a file, a folder or a script, or in memory.

    Attributes:
        path: A file, a folder or ``SCRIPT.py:func`` (``docs/how-to/data.md``); or data in memory
            (``docs/reference/python.md``).
        samples: Number of samples to use, from the start; None for all.
        allow_constant: Whether samples may be constant (one value in all elements).
        options: The preprocessing of files that do not hold arrays, such as images.
    """

    path: DataPlace
    samples: int | None = None
    allow_constant: bool = False
    options: ReadOptions = field(default_factory=ReadOptions)

    def feeds(self, specs: Sequence[InputSpec], each: Callable[[Mapping[str, Array]], None] | None = None) -> Feeds:
        """Open the data and check every sample; arguments and errors are those of :func:`load_feeds`."""
        return load_feeds(
            self.path, specs, self.samples, allow_constant=self.allow_constant, each=each, options=self.options
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomData:
    """Random calibration data, to try a pipeline; never use the resulting model.

    Attributes:
        seed: The same seed gives the same data.
        samples: Number of samples; None for the default, a few samples.
    """

    seed: int = 0
    samples: int | None = None


def open_feeds(
    model: Model, data: str | Path | FileData | RandomData, each: Callable[[Mapping[str, Array]], None] | None = None
) -> Feeds:
    """Open the data and check every sample against the inputs of the model.

    Raises:
        UsageError: A sample does not fit the model.
        ModelError: With these shapes, a tensor of the model is too large for this machine.
    """
    request = FileData(path=Path(data)) if isinstance(data, str | Path) else data
    if request.samples is not None and request.samples < 1:
        raise UsageError(f"samples is {request.samples}; it must be at least 1")
    specs = input_specs(model)
    if isinstance(request, FileData):
        feeds = request.feeds((*specs, *stored_specs(model)), each)
    else:
        feeds = random_feeds(ModelIndex.of(model), specs, seed=request.seed, samples=request.samples)
    require_bounded(model, feeds.description.shapes)
    if each is not None and isinstance(request, RandomData):
        for sample in feeds:
            each(sample)
    return feeds


def data_request(values: Values) -> DataRequest:
    """Return the data that option values request. The values that were used are removed from ``values``."""
    path, allow_constant = values.pop("data", None), values.pop("allow_constant_data", False)
    return build(DataRequest, values, path=path, allow_constant=allow_constant, options=build(ReadOptions, values))
