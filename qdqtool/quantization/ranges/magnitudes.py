"""Measure how large the float tensors of a model become on data, to decide whether float16 holds them."""

from collections.abc import Iterator

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.model import Model
from qdqtool.models.running.observer import Observer, is_fed
from qdqtool.models.running.ort_cpu import Profile
from qdqtool.models.transforms.float16.magnitudes import largest
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.quantization.ranges.types import CHUNK, Ranges
from qdqtool.quantization.statistics.float_runs import run_sample
from qdqtool.samples import Feeds

SAMPLES = CHUNK
"""The most samples that are run. ``float16.magnitudes.LARGEST`` leaves room for others."""


def measure_magnitudes(model: Model, feeds: Feeds) -> dict[TensorKey, float]:
    """Return the largest finite magnitude of each float tensor on the first samples, by scope and name.

    Tensors that only hold values of others are left out. All others are in memory until the run of a sample ends.

    Args:
        model: The float model.
        feeds: The samples.
    """
    index = ModelIndex.of(model)
    values = list(_to_be_measured(index))
    found: dict[TensorKey, float] = {}
    with Observer(index, [value for value in values if not is_fed(value)], Profile.DEPLOYED) as observer:
        for number, sample in enumerate(feeds.first(SAMPLES)):
            run = run_sample(observer, sample, number, feeds)
            for value in values:
                for array in observer.arrays(run, sample, value):
                    found[tensor_key(value)] = max(found.get(tensor_key(value), 0.0), largest(array))
    return found


def magnitudes_in(ranges: Ranges) -> dict[TensorKey, float]:
    """Return the largest magnitudes of the tensors that have ranges."""
    return {key: seen.amax for key, seen in ranges.tensors.items() if seen.count}


def _to_be_measured(index: ModelIndex) -> Iterator[Value]:
    for value in index.view.values():
        kept = value.producer is not None and ops.traits(value.producer).keeps_magnitude
        if index.is_float(value) and not (kept or value.scope.in_function or index.is_constant(value)):
            yield value
