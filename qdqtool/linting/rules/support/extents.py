"""Measure how bad a numeric fault is, as an ``Extent``, which baselines compare."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qdqtool.linting.findings import Extent
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import format_of, kind
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS, QdqNode
from qdqtool.models.targets import Target

FIRST_OPSET = 10
PER_AXIS = "per-axis scales"
FIRST_OPSET_WITH_BLOCKS = 21
FIRST_OPSET_OF_SCALE = {"float16": 19, "bfloat16": 19, "float8e8m0": 24}
FIRST_OPSET_OF_ATTRIBUTE = {
    "QuantizeLinear": {"axis": 13, "saturate": 19, "block_size": 21, "output_dtype": 21, "precision": 23},
    "DequantizeLinear": {"axis": 13, "block_size": 21, "output_dtype": 23},
}


def reads_axis_1(entry: QdqNode, target: Target) -> bool:
    """Return whether the target accepts several scales, and reads them on axis 1, although the opset allows only one.

    ONNX Runtime does this below opset 13. Rule QS004 reports such nodes, whatever their axis.
    """
    return target.family == "ort-cpu" and entry.is_standard and entry.node.scope.opset < FIRST_OPSET_WITH_AXIS


def needs(context: RuleContext, entry: QdqNode) -> Iterator[tuple[str, int]]:
    """Yield the features that a Q or DQ uses, in words, each with the first opset of the feature."""
    yield "Q/DQ", FIRST_OPSET
    fmt = format_of(entry.quantized_type)
    if fmt is not None:
        role = fmt.first_opset.quantize if entry.is_quantize else fmt.first_opset.dequantize
        yield str(fmt), role or FIRST_OPSET
    scale = kind(context.elem_type(entry.scale))
    yield f"a {scale} scale", FIRST_OPSET_OF_SCALE.get(scale, FIRST_OPSET)
    shape = entry.scale_shape
    if shape is not None and shape not in {(), (1,)}:
        blocks = len(shape) > 1
        yield ("block scales", FIRST_OPSET_WITH_BLOCKS) if blocks else (PER_AXIS, FIRST_OPSET_WITH_AXIS)
    known = FIRST_OPSET_OF_ATTRIBUTE[entry.standard_name]
    for attribute in entry.node.proto.attribute:
        yield f"attribute {attribute.name}", known.get(attribute.name, FIRST_OPSET)


Reals = npt.NDArray[np.float64]

FARTHEST = 1e4
"""The degree of a value that no factor can correct, such as NaN. No two float64 differ by so many powers of two."""


def octaves(values: Reals, wanted: Reals | float) -> Reals:
    """Return by how many powers of two each value differs from the wanted one, as a positive number.

    Args:
        values: Array of any shape.
        wanted: The wanted values, broadcastable to ``values``.

    Returns:
        0 where both are equal or both NaN. Otherwise ``FARTHEST`` where one of them is 0, NaN or infinite, or the signs
            differ.
    """
    values, wanted = np.broadcast_arrays(values, wanted)
    with np.errstate(all="ignore"):
        # The logarithm of the ratio is not used: the ratio may overflow.
        off = np.abs(np.log2(np.abs(values)) - np.log2(np.abs(wanted)))
    same = (values == wanted) | (np.isnan(values) & np.isnan(wanted))
    known = np.isfinite(off) & (np.signbit(values) == np.signbit(wanted))
    return np.where(same, 0.0, np.where(known, off, FARTHEST))


def of_values(kind: str, bad: npt.NDArray[np.bool_], off: Reals | float = 0.0) -> Extent:
    """Return the extent of a fault in some elements of a constant.

    Args:
        kind: The kind of fault.
        bad: The elements at fault.
        off: The size of the fault of each element, in the shape of ``bad``, or one number for all.
    """
    worst = np.max(np.broadcast_to(off, bad.shape)[bad], initial=0.0)
    return Extent(kind, int(np.count_nonzero(bad)), float(np.nan_to_num(worst, nan=FARTHEST, posinf=FARTHEST)))
