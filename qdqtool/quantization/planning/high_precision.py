"""Convert the float nodes of a quantized model to float16, or leave them in the type of the model.

The model is prepared, calibrated and quantized in its own type. The remaining float nodes are converted to float16
after that, so that weights are quantized from the given values and not from rounded ones. Only scales are chosen as
values of float16 from the beginning: Q, DQ and codes must agree on them to the last bit.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from onnx import TensorProto

from qdqtool.models.graph.io.metadata import HIGH_PRECISION_KEY, Notes
from qdqtool.models.graph.io.tensors import iter_tensors
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.transforms.float16 import Float32Node, convert_to_float16
from qdqtool.models.transforms.opset import upgrade_opset
from qdqtool.models.transforms.taps import TensorKey
from qdqtool.quantization.planning.scale_type import HighPrecision
from qdqtool.quantization.ranges.magnitudes import magnitudes_in
from qdqtool.quantization.ranges.types import Ranges

OPSET_WITH_HALF_PAIRS = 19
"""The first opset in which Q and DQ take float16."""

_OTHER_FLOATS: dict[int, str] = {
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.DOUBLE: "float64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HighPrecisionReport:
    """The result of the conversion of the float nodes of a model.

    Attributes:
        dtype: The requested type, ``fp16``.
        nodes: How many nodes compute in float16 now, apart from Q and DQ.
        kept: Those that compute in float32.
        casts: How many Cast nodes were added.
        measured: How many tensors were measured, to see whether float16 holds their values; 0 without data.
        note: Why nothing was converted; empty where something was.
    """

    dtype: str
    nodes: int = 0
    kept: tuple[Float32Node, ...] = ()
    casts: int = 0
    measured: int = 0
    note: str = ""


def ready_for(model: Model, high_precision: HighPrecision) -> Transformed[None]:
    """Raise the opset of a float model to one whose Q and DQ take float16, where float16 is requested."""
    if high_precision is HighPrecision.FP16:
        return upgrade_opset(model, OPSET_WITH_HALF_PAIRS)
    return Transformed(model, None)


def lower(quantized: Model, measured: Mapping[TensorKey, float]) -> Transformed[HighPrecisionReport]:
    """Convert the float nodes of a quantized model to float16.

    Args:
        quantized: The model with its pairs; it is not changed.
        measured: The largest magnitudes of its tensors.
    """
    dtype = HighPrecision.FP16.value
    half = convert_to_float16(quantized, measured)
    done = half.report
    if not done.nodes and not done.kept:
        note = f"nothing was float32{_types(quantized)}"
        return Transformed(quantized, HighPrecisionReport(dtype=dtype, note=note))
    return Transformed(
        half.model,
        HighPrecisionReport(dtype=dtype, nodes=done.nodes, kept=done.kept, casts=done.casts, measured=len(measured)),
    )


def high_precision_note(report: HighPrecisionReport | None) -> Notes:
    """Return the metadata that record the type of the float nodes; empty where they were not converted."""
    return {HIGH_PRECISION_KEY: report.dtype} if report is not None and not report.note else {}


def known_magnitudes(measured: Mapping[TensorKey, float], ranges: Ranges | None) -> dict[TensorKey, float]:
    """Return the largest magnitudes of the tensors of a float model, as far as measurements and ranges show them."""
    seen = magnitudes_in(ranges) if ranges is not None else {}
    for key, magnitude in measured.items():
        seen[key] = max(magnitude, seen.get(key, 0.0))
    return seen


def _types(model: Model) -> str:
    """Return the float types of the constants of a model in words, the most frequent one first."""
    kinds = (tensor.data_type for tensor in iter_tensors(model.proto))
    found = Counter(_OTHER_FLOATS[kind] for kind in kinds if kind in _OTHER_FLOATS)
    return f", the constants are {' and '.join(name for name, _ in found.most_common())}" if found else ""
