"""Words and formats of messages, so that all rules use the same."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from qdqtool.models.graph.index.qdq import QdqIndex, QdqNode
from qdqtool.models.graph.index.signature import signature_of
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target, type_name
from qdqtool.numerics import formats
from qdqtool.numerics.number_format import NumberFormat

FLOAT_TYPES = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16})
HALF_TYPES = FLOAT_TYPES - {TensorProto.FLOAT}
FLOAT_NAMES = frozenset(map(type_name, FLOAT_TYPES))
"""The names of the float types of data and scales with which kernels compute."""

PIECES, PIECE = 16, 4096
"""Number of pieces of a sample, and of consecutive values in each piece."""


def places(size: int) -> npt.NDArray[np.int64]:
    """Return the indices to sample from a flat array of ``size`` elements; for a small array, all indices."""
    if size <= PIECES * PIECE:
        return np.arange(size)
    starts = np.linspace(0, size - PIECE, PIECES).astype(np.int64)
    return (starts[:, None] + np.arange(PIECE)).reshape(-1)


Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A property of a node that a target does not accept: what it is and what is accepted, in words."""

    found: str
    expected: str


def kind_of_data(entry: QdqNode, qdq: QdqIndex) -> str:
    """Return ``weights`` or ``activations``."""
    return "weights" if qdq.is_weight(entry) else "activations"


def short(entry: QdqNode) -> str:
    """Return ``Q`` or ``DQ``."""
    return "Q" if entry.is_quantize else "DQ"


def dims(shape: Iterable[int | str | None]) -> str:
    """Return a shape as ``[1, N, ?]``."""
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def kind(onnx_type: int | None) -> str:
    """Return the name of a type, or ``an unknown type``."""
    return "an unknown type" if onnx_type is None else type_name(onnx_type)


@functools.lru_cache(maxsize=256)
def format_of(onnx_type: int | None) -> NumberFormat | None:
    """Return the number format of a quantized type; None for other types."""
    return None if onnx_type is None else formats.by_onnx_type(onnx_type)


def accepts(node: NodeView, index: int, onnx_type: int | None) -> bool:
    """Return whether ONNX defines the operator for this type at input ``index``; True if this is unknown."""
    signature = signature_of(node.op_type, node.scope.opset)
    operand = signature.operand(index) if signature is not None else None
    return onnx_type is None or operand is None or onnx_type in operand.types


def has_its_inputs(node: NodeView) -> bool:
    """Return whether a node has as many inputs as ONNX defines for its operator; True if this is unknown."""
    signature = signature_of(node.op_type, node.scope.opset)
    return signature is None or signature.inputs[0] <= len(node.proto.input) <= signature.inputs[1]


@functools.lru_cache(maxsize=1024)
def is_operator(op_type: str) -> bool:
    """Return whether any opset of ONNX has an operator with this name."""
    return bool(onnx.defs.has(op_type, domain="", max_inclusive_version=onnx.defs.onnx_opset_version()))


def listed(words: Iterable[str]) -> str:
    """Return ``a, b, c`` in alphabetical order."""
    return ", ".join(sorted(words))


def legal_types(legal: Iterable[str], found: str, target: Target) -> str:
    """Return the legal types as ``a, b, c``, with the later release that accepts ``found``, if there is one."""
    later = target.later.get(found)
    return listed(legal) if later is None else f"{listed(legal)} ({found} from release {later} on)"


def offenders(values: Array, bad: npt.NDArray[np.bool_]) -> str:
    """Return the first bad value, its place, and the number of other bad values: ``-1 in channel 3 (and 2 more)``."""
    places = np.argwhere(bad)
    first = tuple(int(index) for index in places[0])
    where = "" if values.ndim == 0 or values.size == 1 else f" in channel {_index(first)}"
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    return f"{number(values[first])}{where}{more}"


def number(value: object) -> str:
    """Return a scalar with up to six significant digits, without a trailing ``.0``."""
    return f"{float(np.asarray(value).astype(np.float64)):.6g}"


def _index(place: Sequence[int]) -> str:
    return str(place[0]) if len(place) == 1 else dims(place)
