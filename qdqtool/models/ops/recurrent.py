"""Recurrent layers, which stay unquantized."""

from dataclasses import replace

from qdqtool.models.ops._product import QuantizableOp
from qdqtool.models.ops._traits import NO_BFLOAT16, Traits


class _Recurrent(QuantizableOp):
    """Recurrent layers, with a weight for the input and a weight for the state.

    With pairs on input and weights, TensorRT for RTX multiplies the inputs of all steps in one int8 product, and
    dequantizes the weight of the state once. Every step is computed in float, and the steps take most of the time.
    """

    op_types = ("GRU", "LSTM", "RNN")
    stays_float = (
        "TensorRT computes its steps in float, with and without pairs: its state is a float tensor inside the layer"
    )


# Input 4 has the lengths of the sequences.
_RECURRENT = Traits(is_layer=True, multiplies_inside=True, no_half_with=4)
TRAITS = {"GRU": replace(_RECURRENT, no_kernel=NO_BFLOAT16), "LSTM": _RECURRENT, "RNN": _RECURRENT}
OP = _Recurrent()
