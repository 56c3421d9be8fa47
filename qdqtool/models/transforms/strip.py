"""Remove every Q/DQ from a model in memory."""

import math
from dataclasses import dataclass

from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.soundness import require_sound
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.report import NodeReason
from qdqtool.models.graph.scope import display
from qdqtool.models.transforms.opset import require_known_opset
from qdqtool.models.transforms.restored_bounds import Restored
from qdqtool.models.transforms.strip_edits import RemovedNode, StripEdits


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredNode:
    """A Relu or Clip that replaces a Q, because the range of the Q had the same effect.

    Attributes:
        node: Label of the Q.
        graph: Scope of the Q; empty for the main graph.
        op_type: ``Relu`` or ``Clip``.
        tensor: The tensor that the Relu or Clip makes.
        low: The lower bound of a Clip, or None if there is none; None for a Relu.
        high: The upper bound of a Clip, or None if there is none; None for a Relu.
    """

    node: str
    graph: str
    op_type: str
    tensor: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Stripped:
    """The result of stripping a quantized model.

    Attributes:
        removed: Every DQ that was removed.
        kept: Every Q or DQ that stays, with the reason.
        warnings: Possible differences between the models: a Q may have the effect of a Relu or Clip that cannot be
            restored.
        restored: Every Relu and Clip that was restored.
    """

    removed: tuple[RemovedNode, ...]
    kept: tuple[NodeReason, ...]
    warnings: tuple[str, ...]
    restored: tuple[RestoredNode, ...] = ()


def strip_from(source: Model) -> Transformed[Stripped]:
    """Remove every Q/DQ from a model in memory; the given model is not changed.

    A quantizer may have removed a Relu or Clip because the range of a Q had the same effect. Such a Relu or Clip is
    restored (:mod:`qdqtool.models.ops.support.imposed_bounds`).
    """
    require_known_opset(source)
    index = ModelIndex.of(source.fork())
    require_sound(index.view)
    builder = StripEdits(index)
    builder.add_all()
    warnings = tuple(
        f"{each.node} may replace a Relu or Clip that cannot be restored: {each.reason}" for each in builder.lost
    )
    stripped = Stripped(tuple(builder.removed), tuple(builder.kept), warnings, tuple(map(_describe, builder.restored)))
    return Transformed(apply_edits(index.model, builder.edits), stripped)


def _describe(made: Restored) -> RestoredNode:
    bounds = (made.bounds.low, made.bounds.high) if made.op_type == "Clip" else ()
    low, high = (bound if math.isfinite(bound) else None for bound in bounds or (math.inf, math.inf))
    return RestoredNode(
        node=made.node.label,
        graph=display(made.node.scope.path),
        op_type=made.op_type,
        tensor=made.tensor,
        low=low,
        high=high,
    )
