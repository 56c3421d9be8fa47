"""The strip job: take Q/DQ out of a model again."""

from dataclasses import dataclass
from pathlib import Path

from qdqtool.graph.constants import Constants
from qdqtool.graph.external import model_bytes
from qdqtool.graph.load import load_model
from qdqtool.graph.model import Model
from qdqtool.graph.opset import require_known_opset
from qdqtool.graph.qdq import QdqIndex
from qdqtool.graph.save import ExternalData, check_output, save_model
from qdqtool.graph.scope import display
from qdqtool.graph.soundness import require_sound
from qdqtool.graph.surgeon import apply_edits
from qdqtool.graph.types import TensorTypes
from qdqtool.graph.view import GraphView
from qdqtool.pipeline.sizes import Sizes
from qdqtool.pipeline.strip_edits import StripEdits


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedNode:
    """One DequantizeLinear that was taken out.

    Attributes:
        node: Label of the node.
        graph: Its scope; empty for the main graph.
        kind: ``pair`` for a bypassed Q/DQ pair, ``weight`` for stored codes that became float again, ``scale`` for a
            DQ that made the scales of others.
        tensor: The float tensor that is read now; for ``scale`` the scales that nothing reads any more.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StripReport:
    """What strip did.

    Attributes:
        model: The input.
        output: The ``.onnx`` file written.
        external_data: The data file beside it, if any.
        removed: Every DQ that was taken out.
        kept: Every Q or DQ that stays, with the reason.
        warnings: What the float model lacks that the quantized one did.
        sizes: File sizes.
    """

    model: str
    output: str
    external_data: str | None
    removed: tuple[RemovedNode, ...]
    kept: tuple[KeptNode, ...]
    warnings: tuple[str, ...]
    sizes: Sizes


@dataclass(frozen=True, slots=True, eq=False)
class Stripped:
    """A model without its Q/DQ.

    Attributes:
        model: The model.
        removed: Every DQ that was taken out.
        kept: Every Q or DQ that stays, with the reason.
        warnings: What the float model lacks that the quantized one did.
    """

    model: Model
    removed: tuple[RemovedNode, ...]
    kept: tuple[KeptNode, ...]
    warnings: tuple[str, ...]


def strip_model(
    model: str | Path | Model, output: str | Path, *, external_data: ExternalData = ExternalData.AUTO
) -> StripReport:
    """Take every Q/DQ out of a model and write the result.

    Pairs are bypassed; stored codes become float constants, dequantized by the canonical arithmetic. What cannot go
    (codes that are graph inputs or outputs, or feed other operators) stays and is reported.

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        output: The ``.onnx`` file to write.
        external_data: Where weights are stored.

    Raises:
        ModelError: The model cannot be read.
        OutputError: The output cannot be written.
    """
    source = model if isinstance(model, Model) else load_model(model)
    check_output(Path(output), [source.path] if source.path else [])
    stripped = strip_from(source)
    saved = save_model(stripped.model, output, external_data=external_data)
    return StripReport(
        model=str(source.path or ""),
        output=str(saved.model),
        external_data=str(saved.data) if saved.data else None,
        removed=stripped.removed,
        kept=stripped.kept,
        warnings=stripped.warnings,
        sizes=Sizes(before=model_bytes(source), after=saved.bytes),
    )


def strip_from(source: Model) -> Stripped:
    """Take every Q/DQ out of a model in memory, which is not changed."""
    require_known_opset(source)
    view = GraphView(source.fork())
    require_sound(view)
    types, constants = TensorTypes(view), Constants(view)
    builder = StripEdits(view, types, constants, QdqIndex(view, types, constants))
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
    return Stripped(apply_edits(view.model, builder.edits), removed, kept, warnings)
