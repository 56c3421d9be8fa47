"""Convert the float32 nodes of a model to half precision, for builders that keep the types of a model.

The decision for each node uses the types that ONNX allows, the meaning of the operator, and the largest measured
values. A Cast is inserted where the two types meet. Between a DQ and its readers, a Cast is needed if the stored scale
has no equal in half precision, or if the scale is computed and the opset is below 23: data and scale then have one
type, which may be too small.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.report import NodeReason
from qdqtool.models.options import HalfType
from qdqtool.models.transforms.half.decide import decide
from qdqtool.models.transforms.half.edits import HalfEdits
from qdqtool.models.transforms.taps import TensorKey

__all__ = ["HalfConversion", "convert_to_half"]


@dataclass(frozen=True, slots=True)
class HalfConversion:
    """The result of the conversion of a model.

    Attributes:
        nodes: Number of nodes that compute in half precision.
        kept: The nodes that stay in float32, with the reasons.
        casts: Number of Cast nodes that were added.
    """

    nodes: int
    kept: tuple[NodeReason, ...]
    casts: int


def convert_to_half(
    model: Model, half: HalfType, measured: Mapping[TensorKey, float] | None = None
) -> Transformed[HalfConversion]:
    """Convert the float32 nodes of a model to half precision.

    Inputs and outputs of the model, of local functions and of subgraphs keep their types. The scale of a
    converted Q or DQ gets the type too, if its values are exact in it; otherwise the pair stays float32 between Casts.

    Args:
        model: The model; its opset is at least 19 if it has Q or DQ. It is not changed.
        half: The type that replaces float32.
        measured: The largest finite magnitude of each tensor on data, by scope and name. Tensors that were not measured
            are assumed to fit.
    """
    index = ModelIndex.of(model.fork())
    decisions = decide(index, half, measured or {})
    builder = HalfEdits(decisions)
    builder.add_all()
    done = apply_edits(index.model, builder.edits) if builder.edits else model
    computing = sum(1 for _ in decisions.computing())
    kept = tuple(node.because(reason) for node, reason in decisions.kept.items())
    return Transformed(done, HalfConversion(computing - len(decisions.kept), kept, builder.casts))
