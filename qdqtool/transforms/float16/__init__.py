"""Converting what stays float in a quantized model from float32 to float16, for builders that keep to a model's types.

Every node is decided for by itself: by what ONNX allows, by what the operator means, and by how large its values were
seen to become. Where the two types meet stands a Cast, and never one between a DQ and what reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from qdqtool.graph.edits.surgeon import apply_edits
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.model import Model
from qdqtool.graph.scope import display
from qdqtool.graph.transformed import Transformed
from qdqtool.transforms.float16.decide import Decisions, decide
from qdqtool.transforms.float16.edits import Float16Edits
from qdqtool.transforms.taps import TensorKey

__all__ = ["Float16Conversion", "Float32Node", "convert_to_float16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Float32Node:
    """One node that computes in float32.

    Attributes:
        node: Its label.
        op_type: Its operator.
        graph: Its scope; empty for the main graph.
        reason: Why, in words.
    """

    node: str
    op_type: str
    graph: str
    reason: str


@dataclass(frozen=True, slots=True)
class Float16Conversion:
    """What became of the float nodes of a model.

    Attributes:
        nodes: How many of them compute in float16.
        kept: Those that compute in float32.
        casts: How many Cast nodes were added.
    """

    nodes: int
    kept: tuple[Float32Node, ...]
    casts: int


def convert_to_float16(
    model: Model, measured: Mapping[TensorKey, float] | None = None
) -> Transformed[Float16Conversion]:
    """Convert the float32 part of a model to float16.

    Inputs and outputs of the model keep their type. So does what a local function or a body is handed and returns.
    Scales of a Q and DQ become float16 with the tensor, so they should be values of float16 already.

    Args:
        model: The model, of opset 19 or later where it has Q or DQ. It is not changed.
        measured: The largest finite magnitude of its tensors on data, by scope and name: what is unknown is taken to
            fit.
    """
    index = ModelIndex.of(model.fork())
    decisions = decide(index, measured or {})
    builder = Float16Edits(decisions)
    builder.add_all()
    done = apply_edits(index.model, builder.edits) if builder.edits else model
    computing = sum(1 for _ in decisions.computing())
    return Transformed(done, Float16Conversion(computing - len(decisions.kept), _kept(decisions), builder.casts))


def _kept(decisions: Decisions) -> tuple[Float32Node, ...]:
    return tuple(
        Float32Node(node=node.label, op_type=node.op_type, graph=display(node.scope.path), reason=reason)
        for node, reason in decisions.kept.items()
    )
