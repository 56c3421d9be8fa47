"""Convert the float32 nodes of a quantized model to float16, for builders that keep to the types of a model.

The decision is made for each node: by the types that ONNX allows, by the meaning of the operator, and by the largest
values that were measured. A Cast is inserted where the two types meet, but never between a DQ and its readers, unless
the scale is computed and the opset below 23: there a Q and DQ have one type, and such a scale may be too small.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.report import NodeReason
from qdqtool.models.transforms.float16.decide import decide
from qdqtool.models.transforms.float16.edits import Float16Edits
from qdqtool.models.transforms.taps import TensorKey

__all__ = ["Float16Conversion", "convert_to_float16"]


@dataclass(frozen=True, slots=True)
class Float16Conversion:
    """The result of the conversion of a model.

    Attributes:
        nodes: How many of them compute in float16.
        kept: Those that compute in float32.
        casts: How many Cast nodes were added.
    """

    nodes: int
    kept: tuple[NodeReason, ...]
    casts: int


def convert_to_float16(
    model: Model, measured: Mapping[TensorKey, float] | None = None
) -> Transformed[Float16Conversion]:
    """Convert the float32 nodes of a model to float16.

    Inputs and outputs of the model keep their type. Inputs and outputs of local functions and bodies do too.
    Scales of a Q and DQ become float16 with the tensor, so they should be values of float16 already.

    Args:
        model: The model, of opset 19 or later where it has Q or DQ. It is not changed.
        measured: The largest finite magnitude of its tensors on data, by scope and name; tensors without one are
            assumed to fit.
    """
    index = ModelIndex.of(model.fork())
    decisions = decide(index, measured or {})
    builder = Float16Edits(decisions)
    builder.add_all()
    done = apply_edits(index.model, builder.edits) if builder.edits else model
    computing = sum(1 for _ in decisions.computing())
    kept = tuple(node.because(reason) for node, reason in decisions.kept.items())
    return Transformed(done, Float16Conversion(computing - len(decisions.kept), kept, builder.casts))
