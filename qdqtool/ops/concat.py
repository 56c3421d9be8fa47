"""Concat: moves values, but only inputs with equal scales can be joined as codes."""

from qdqtool.graph.index.view import NodeView
from qdqtool.ops._op import QuantizableOp
from qdqtool.ops._traits import Codes, Traits


class _Concat(QuantizableOp):
    """All inputs take pairs, with one scale.

    It needs none of its own: TensorRT moves the Q that stands behind it in front, onto each input, and joins codes.
    Asking for it gives one scale to the pair behind it and to those that its inputs have for other readers.
    """

    op_types = ("Concat",)
    stays_float = "it only joins tensors: where what reads them is quantized, one pair stands behind it"
    on_request = True

    def quantized_inputs(self, node: NodeView) -> tuple[int, ...]:
        """Every input."""
        return tuple(range(len(node.proto.input)))


TRAITS = {"Concat": Traits(computes_indices=True, codes=Codes.JOINED, lacks_uint8=True)}
OP = _Concat()
