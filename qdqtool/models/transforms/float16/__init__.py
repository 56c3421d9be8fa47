"""Convert the float32 nodes of a quantized model to float16, for builders that keep the types of a model.

The decision for each node uses the types that ONNX allows, the meaning of the operator, and the largest measured
values. A Cast is inserted where the two types meet. Between a DQ and its readers, a Cast is needed only if the scale is
computed and the opset is below 23: data and scale then have one type, and float16 may be too small.
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
        nodes: Number of nodes that compute in float16.
        kept: The nodes that stay in float32, with the reasons.
        casts: Number of Cast nodes that were added.
    """

    nodes: int
    kept: tuple[NodeReason, ...]
    casts: int


def convert_to_float16(
    model: Model, measured: Mapping[TensorKey, float] | None = None
) -> Transformed[Float16Conversion]:
    """Convert the float32 nodes of a model to float16.

    Inputs and outputs of the model, of local functions and of subgraphs keep their types. The scales of a converted Q
    or DQ become float16, so their values should be exact in float16.

    Args:
        model: The model; its opset is at least 19 if it has Q or DQ. It is not changed.
        measured: The largest finite magnitude of each tensor on data, by scope and name. Tensors that were not measured
            are assumed to fit in float16.
    """
    index = ModelIndex.of(model.fork())
    decisions = decide(index, measured or {})
    builder = Float16Edits(decisions)
    builder.add_all()
    done = apply_edits(index.model, builder.edits) if builder.edits else model
    computing = sum(1 for _ in decisions.computing())
    kept = tuple(node.because(reason) for node, reason in decisions.kept.items())
    return Transformed(done, Float16Conversion(computing - len(decisions.kept), kept, builder.casts))
