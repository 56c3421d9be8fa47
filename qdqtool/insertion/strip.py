"""Remove every Q/DQ from a model in memory."""

from dataclasses import dataclass

from qdqtool.graph.edits.surgeon import apply_edits
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.soundness import require_sound
from qdqtool.graph.model import Model
from qdqtool.graph.scope import display
from qdqtool.graph.transformed import Transformed
from qdqtool.insertion.strip_edits import StripEdits
from qdqtool.transforms.opset import require_known_opset


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedNode:
    """One DequantizeLinear that was removed.

    Attributes:
        node: Label of the node.
        graph: Its scope; empty for the main graph.
        kind: ``pair`` for a bypassed Q/DQ pair, ``weight`` for stored codes that became float again, ``scale`` for a
            DQ that made the scales of others.
        tensor: The float tensor that its consumers read now; for ``scale`` the scales that nothing reads any more.
    """

    node: str
    graph: str
    kind: str
    tensor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptNode:
    """One Q or DQ that stays.

    Attributes:
        node: Label of the node.
        op_type: Operator.
        graph: Its scope; empty for the main graph.
        reason: Why it stays.
    """

    node: str
    op_type: str
    graph: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stripped:
    """The result of stripping a quantized model.

    Attributes:
        removed: Every DQ that was removed.
        kept: Every Q or DQ that stays, with the reason.
        warnings: What the quantized model computed and the float model does not.
    """

    removed: tuple[RemovedNode, ...]
    kept: tuple[KeptNode, ...]
    warnings: tuple[str, ...]


def strip_from(source: Model) -> Transformed[Stripped]:
    """Remove every Q/DQ from a model in memory; the given model is not changed."""
    require_known_opset(source)
    index = ModelIndex.of(source.fork())
    require_sound(index.view)
    builder = StripEdits(index)
    builder.add_all()
    removed = tuple(
        RemovedNode(node=done.node.label, graph=display(done.node.scope.path), kind=done.kind, tensor=done.tensor)
        for done in builder.removed
    )
    kept = tuple(
        KeptNode(
            node=rest.node.label,
            op_type=rest.node.op_type,
            graph=display(rest.node.scope.path),
            reason=rest.reason,
        )
        for rest in builder.kept
    )
    warnings = tuple(
        f"{node.label} clips at zero what may be negative: a Relu that a quantizer left out there is lost"
        for node in builder.clipping
    )
    return Transformed(apply_edits(index.model, builder.edits), Stripped(removed, kept, warnings))
