"""Convert the float32 nodes of a model to half precision, for builders that keep the types of a model.

The decision for each node uses the types that ONNX allows, the meaning of the operator, and the largest measured
values. A Cast is inserted where the two types meet. Between a DQ and its readers, a Cast is needed if the stored scale
has no equal in half precision, or if the scale is computed and the opset is below 23: data and scale then have one
type, which may be too small.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.report import NodeReason
from qdqtool.models.graph.scope import ScopePath
from qdqtool.models.options import HalfType
from qdqtool.models.transforms.half.decide import decide
from qdqtool.models.transforms.half.edits import HalfEdits, without_same_casts
from qdqtool.models.transforms.taps import TensorKey

__all__ = ["HalfConversion", "NodeId", "convert_to_half"]

NodeId = tuple[ScopePath, NodeKey]
"""A node: its scope and the names of its outputs."""


@dataclass(frozen=True, slots=True)
class HalfConversion:
    """The result of the conversion of a model.

    Attributes:
        computing: The nodes that compute in half precision, in the order of the graph.
        kept: The nodes that stay in float32, with the reasons.
        casts: Number of Cast nodes that were added.
    """

    computing: tuple[NodeId, ...]
    kept: tuple[NodeReason, ...]
    casts: int

    @property
    def nodes(self) -> int:
        """The number of nodes that compute in half precision."""
        return len(self.computing)


def convert_to_half(
    model: Model,
    half: HalfType,
    measured: Mapping[TensorKey, float] | None = None,
    refuse: Callable[[NodeView], str] = lambda _: "",
    *,
    saves_casts: bool = True,
    reserve: float = 1.0,
) -> Transformed[HalfConversion]:
    """Convert the float32 nodes of a model to half precision.

    Inputs and outputs of the model, of local functions and of subgraphs keep their types. The scale of a
    converted Q or DQ gets the type too, if its values are exact in it; otherwise the pair stays float32 between Casts.
    Scales of stored codes below 8 bits are rounded, because TensorRT fuses only those of the data's type.

    Args:
        model: The model; it is not changed. Below opset 19, every pair stays float32.
        half: The type that replaces float32.
        measured: The largest finite magnitude of each tensor on data, by scope and name. Tensors that were not measured
            are assumed to fit.
        refuse: Returns why a node must stay float32, or "" if it may be half precision.
        saves_casts: Whether light nodes between nodes that stay float32 stay float32 too.
        reserve: How many times larger values may be than the measured ones.
    """
    index = ModelIndex.of(model.fork())
    decisions = decide(index, half, measured or {}, refuse, saves_casts=saves_casts, reserve=reserve)
    builder = HalfEdits(decisions)
    builder.add_all()
    edited = apply_edits(index.model, builder.edits) if builder.edits else model
    done = without_same_casts(edited, decisions).model
    kept = tuple(node.because(reason) for node, reason in decisions.kept.items())
    computing = tuple((node.scope.path, node.key) for node in decisions.computing() if node not in decisions.kept)
    return Transformed(done, HalfConversion(computing, kept, builder.casts))
