"""Convert the float nodes of a quantized model to half precision, or keep the type of the model.

The model is prepared, calibrated and quantized in its own type. The remaining float nodes are converted after that, so
that weights are quantized from their given values and not from rounded values. Only scales are values of the half type
from the beginning: Q, DQ and codes must agree on them to the last bit.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.errors import QdqError
from qdqtool.models import ops, targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.metadata import HIGH_PRECISION_KEY, Notes
from qdqtool.models.graph.io.tensors import iter_tensors
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.options import HalfType, Profile
from qdqtool.models.running.observer import Observer, is_fed
from qdqtool.models.running.own_evaluator import has_large_weights
from qdqtool.models.transforms.half import convert_to_half
from qdqtool.models.transforms.half.decide import DTYPES
from qdqtool.models.transforms.half.magnitudes import largest
from qdqtool.models.transforms.opset import upgrade_opset
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics import formats
from qdqtool.numerics.derive import ScaleRule, round_scale
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, Array
from qdqtool.numerics.scheme import QuantParams
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.types import CHUNK, Ranges
from qdqtool.quantization.report import HighPrecisionReport
from qdqtool.quantization.statistics.float_runs import run_sample
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.request import RandomData, open_feeds


def rule_for(elem_type: int, high_precision: HighPrecision) -> ScaleRule:
    """Return the rule by which the scales of a tensor are derived.

    Args:
        elem_type: ``TensorProto.DataType`` of the tensor.
        high_precision: The type of float nodes in the written model.
    """
    half = high_precision.half if elem_type == TensorProto.FLOAT else None
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type)) if half is None else DTYPES[half]
    return ScaleRule(dtype=dtype, narrow_range=True)


def as_stored(params: QuantParams, elem_type: int) -> QuantParams:
    """Return the scales in the type of the tensor, which represents them exactly; float8 scales do not change."""
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    # Pairs are inserted into the float32 model, and below opset 23 ONNX requires scales of the type of the data. The
    # conversion to half precision restores their type, without rounding.
    if params.scale.dtype not in DTYPES.values() or params.scale.dtype == dtype:
        return params
    return replace(params, scale=params.scale.astype(dtype))


def round_given(scale: Array, dtype: np.dtype[np.generic], high_precision: HighPrecision) -> Array:
    """Return given scales in the type of the tensor, rounded to the values that will be stored."""
    if high_precision.half is not None and dtype == FLOAT32:
        return round_scale(scale.astype(np.float64), DTYPES[high_precision.half]).astype(dtype)
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


RESERVE_OF_RANDOM = 8.0
"""How many times larger values of real data may be than those of random inputs (measured on 17 networks: up to 7.4, and
without this reserve a classifier of files kept 13 dB). Time steps of a diffusion model were 763 times larger."""


def magnitudes_on_random_inputs(model: Model) -> dict[TensorKey, float]:
    """Return the largest magnitudes on a few random inputs; empty if the weights are large, or no run is possible."""
    with suppress(QdqError):
        return {} if has_large_weights(model) else measure_magnitudes(model, open_feeds(model, RandomData()))
    return {}


def magnitudes_in(ranges: Ranges) -> dict[TensorKey, float]:
    """Return the largest magnitudes of the tensors that have ranges."""
    return {key: seen.amax for key, seen in ranges.tensors.items() if seen.count}


def _to_be_measured(index: ModelIndex) -> Iterator[Value]:
    for value in index.view.values():
        kept = value.producer is not None and ops.traits(value.producer).keeps_magnitude
        if index.is_float(value) and not (kept or value.scope.in_function or index.is_constant(value)):
            yield value


FIRST_OPSET = {HalfType.FP16: 19, HalfType.BF16: 22}
"""The first opset that defines Q, DQ, convolutions and pooling for each type."""

_OTHER_FLOATS: dict[int, str] = {
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.DOUBLE: "float64",
}


def ready_for(model: Model, high_precision: HighPrecision) -> Transformed[None]:
    """If half precision is requested, raise the opset of a float model to one whose operators accept it."""
    if high_precision.half is not None:
        return upgrade_opset(model, FIRST_OPSET[high_precision.half])
    return Transformed(model, None)


def resolved(model: Model, recipe: Recipe) -> Recipe:
    """Return the recipe with the type of float nodes that ``auto`` means for a model; every other type stays.

    It is float16 if the target is TensorRT, unless layers of the model already compute in half precision, float16 would
    round scales of kept codes, or the opset cannot be raised.
    """
    if recipe.high_precision is not HighPrecision.AUTO:
        return recipe
    chosen, index = HighPrecision.FP32, ModelIndex.of(model)
    if targets.get(recipe.target).family == "tensorrt" and not (_has_half_layers(index) or _rounds_scales(index)):
        with suppress(QdqError):
            ready_for(model, HighPrecision.FP16)
            chosen = HighPrecision.FP16
    return replace(recipe, high_precision=chosen)


def _has_half_layers(index: ModelIndex) -> bool:
    made = (node.output() for node in index.view.nodes() if ops.traits(node).is_layer)
    return any(index.types.elem_type(value) in _HALF for value in made if value is not None)


def _rounds_scales(index: ModelIndex) -> bool:
    """Return whether float16 would round scales of stored codes below 8 bits, which were chosen for these scales."""
    for entry in index.qdq.dequantizers():
        fmt = formats.by_onnx_type(entry.quantized_type or 0)
        if fmt is not None and fmt.bits < 8 and entry.data is not None and index.is_constant(entry.data):
            scale = index.constants.array(entry.scale) if entry.scale is not None else None
            if scale is None or not np.array_equal(scale.astype(FLOAT16).astype(scale.dtype), scale):
                return True
    return False


_HALF = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})


def lower(
    quantized: Model,
    half: HalfType,
    measured: Mapping[TensorKey, float],
    refuse: Callable[[NodeView], str] = lambda _: "",
    *,
    random: bool = False,
) -> Transformed[HighPrecisionReport]:
    """Convert the float nodes of a quantized model to half precision.

    Args:
        quantized: The model.
        half: The type that replaces float32.
        measured: The largest magnitudes of tensors.
        refuse: Returns why a node must stay float32, or "" if it may be half precision.
        random: Whether they were measured on random inputs.
    """
    dtype = half.value
    reserve = RESERVE_OF_RANDOM if random else 1.0
    converted = convert_to_half(quantized, half, measured, refuse, reserve=reserve)
    done = converted.report
    if not done.nodes and not done.kept:
        note = f"nothing was float32{float_types(quantized)}"
        return Transformed(quantized, HighPrecisionReport(dtype=dtype, note=note))
    return Transformed(
        converted.model,
        HighPrecisionReport(
            dtype=dtype,
            nodes=done.nodes,
            kept=done.kept,
            casts=done.casts,
            measured=len(measured),
            random=random and bool(measured),
        ),
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
