"""Concat: it moves values, but only inputs with equal scales can be joined as codes."""

from qdqtool.graph.index.view import NodeView
from qdqtool.ops._op import QuantizableOp
from qdqtool.ops._traits import Codes, Traits


class _Concat(QuantizableOp):
    """Concat, whose inputs need one scale.

    It needs no pairs of its own: TensorRT moves the Q behind it onto each input, and joins codes. A user who names it
    gets one scale for the pair behind it and for the pairs that its inputs have for other readers.
    """

    op_types = ("Concat",)
    stays_float = "it only joins tensors: where what reads them is quantized, one pair stands behind it"
    on_request = True

    def quantized_inputs(self, node: NodeView) -> tuple[int, ...]:
        """Return every input."""
        return tuple(range(len(node.proto.input)))


TRAITS = {"Concat": Traits(keeps_sign_of_all=True, computes_indices=True, codes=Codes.JOINED, lacks_uint8=True)}
OP = _Concat()
