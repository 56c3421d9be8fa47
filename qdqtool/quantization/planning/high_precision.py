"""Convert the float nodes of a quantized model to float16, or keep the type of the model.

The model is prepared, calibrated and quantized in its own type. The remaining float nodes are converted to float16
after that, so that weights are quantized from their given values and not from rounded values. Only scales are float16
values from the beginning: Q, DQ and codes must agree on them to the last bit.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.metadata import HIGH_PRECISION_KEY, Notes
from qdqtool.models.graph.io.tensors import iter_tensors
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.options import HalfType, Profile
from qdqtool.models.running.observer import Observer, is_fed
from qdqtool.models.transforms.half import convert_to_half
from qdqtool.models.transforms.half.magnitudes import largest
from qdqtool.models.transforms.opset import upgrade_opset
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics.derive import ScaleRule, round_scale
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, Array
from qdqtool.numerics.scheme import QuantParams
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.ranges.types import CHUNK, Ranges
from qdqtool.quantization.report import HighPrecisionReport
from qdqtool.quantization.statistics.float_runs import run_sample
from qdqtool.samples.feeds import Feeds


def rule_for(elem_type: int, high_precision: HighPrecision) -> ScaleRule:
    """Return the rule by which the scales of a tensor are derived.

    Args:
        elem_type: ``TensorProto.DataType`` of the tensor.
        high_precision: The type of float nodes in the written model.
    """
    will_be_half = high_precision is HighPrecision.FP16 and elem_type == TensorProto.FLOAT
    dtype = FLOAT16 if will_be_half else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    return ScaleRule(dtype=dtype, narrow_range=True)


def as_stored(params: QuantParams, elem_type: int) -> QuantParams:
    """Return the scales in the type of the tensor, which represents them exactly; float8 scales do not change."""
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    # Pairs are inserted into the float32 model, and below opset 23 ONNX requires scales of the type of the data. The
    # conversion to float16 turns them into float16 again, without rounding.
    if params.scale.dtype != FLOAT16 or params.scale.dtype == dtype:
        return params
    return replace(params, scale=params.scale.astype(dtype))


def round_given(scale: Array, dtype: np.dtype[np.generic], high_precision: HighPrecision) -> Array:
    """Return given scales in the type of the tensor, rounded to the values that will be stored."""
    if high_precision is HighPrecision.FP16 and dtype == FLOAT32:
        return round_scale(scale.astype(np.float64), FLOAT16).astype(dtype)
    return scale.astype(dtype)


SAMPLES = CHUNK
"""Largest number of samples to run. ``HalfType.largest`` leaves a margin for the remaining samples."""


def measure_magnitudes(model: Model, feeds: Feeds) -> dict[TensorKey, float]:
    """Return the largest finite magnitude of each float tensor on the first samples, by scope and name.

    Tensors that only repeat values of other tensors are left out. The others stay in memory during a run.
    """
    index = ModelIndex.of(model)
    values = list(_to_be_measured(index))
    found: dict[TensorKey, float] = {}
    # ONNX Runtime's optimizations turn float8 pairs into operators that it refuses.
    profile = Profile.SEMANTIC if index.qdq.nodes else Profile.DEPLOYED
    with Observer(index, [value for value in values if not is_fed(value)], profile) as observer:
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


OPSET_WITH_HALF_PAIRS = 19
"""The first opset in which Q and DQ accept float16."""

_OTHER_FLOATS: dict[int, str] = {
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.DOUBLE: "float64",
}


def ready_for(model: Model, high_precision: HighPrecision) -> Transformed[None]:
    """If float16 is requested, raise the opset of a float model to one whose Q and DQ accept float16."""
    if high_precision is HighPrecision.FP16:
        return upgrade_opset(model, OPSET_WITH_HALF_PAIRS)
    return Transformed(model, None)


def lower(quantized: Model, measured: Mapping[TensorKey, float]) -> Transformed[HighPrecisionReport]:
    """Convert the float nodes of a quantized model to float16."""
    dtype = HighPrecision.FP16.value
    half = convert_to_half(quantized, HalfType.FP16, measured)
    done = half.report
    if not done.nodes and not done.kept:
        note = f"nothing was float32{float_types(quantized)}"
        return Transformed(quantized, HighPrecisionReport(dtype=dtype, note=note))
    return Transformed(
        half.model,
        HighPrecisionReport(dtype=dtype, nodes=done.nodes, kept=done.kept, casts=done.casts, measured=len(measured)),
    )


def high_precision_note(report: HighPrecisionReport | None) -> Notes:
    """Return the metadata that record the type of the float nodes; empty if they were not converted."""
    return {HIGH_PRECISION_KEY: report.dtype} if report is not None and not report.note else {}


def known_magnitudes(measured: Mapping[TensorKey, float], ranges: Ranges | None) -> dict[TensorKey, float]:
    """Return the largest known magnitude of each tensor of a float model, from measurements and ranges."""
    seen = magnitudes_in(ranges) if ranges is not None else {}
    for key, magnitude in measured.items():
        seen[key] = max(magnitude, seen.get(key, 0.0))
    return seen


def float_types(model: Model) -> str:
    """Return the float types of the constants of a model as text, the most frequent type first."""
    kinds = (tensor.data_type for tensor in iter_tensors(model.proto))
    found = Counter(_OTHER_FLOATS[kind] for kind in kinds if kind in _OTHER_FLOATS)
    return f", the constants are {' and '.join(name for name, _ in found.most_common())}" if found else ""
