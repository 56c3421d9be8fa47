"""ConvTranspose."""

from qdqtool.graph.index.view import NodeView
from qdqtool.ops._op import QuantizableOp
from qdqtool.ops._traits import Traits


class _ConvTranspose(QuantizableOp):
    """Weight ``[C, M/group, k1, ...]``.

    ONNX's output channel is axis 1, while NVIDIA's kernels are reported to want scales on axis 0 and TensorRT for RTX
    runs the operator in float whatever the axis: only per-tensor weights mean the same everywhere.
    """

    op_types = ("ConvTranspose",)
    weight_input = 1
    bias_input = 2
    stays_float = "TensorRT for RTX runs it in float whatever its pairs"
    on_request = True

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """Axis 0."""
        del node, rank
        return 0


TRAITS = {"ConvTranspose": Traits(is_layer=True)}
OP = _ConvTranspose()
