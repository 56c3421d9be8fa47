"""Recurrent layers, which stay unquantized."""

from qdqtool.models.ops._product import QuantizableOp
from qdqtool.models.ops._traits import Traits


class _Recurrent(QuantizableOp):
    """Recurrent layers, with a weight for the input and a weight for the state.

    With pairs on input and weights, TensorRT for RTX multiplies the inputs of all steps in one int8 product, and
    dequantizes the weight of the state once. Every step is computed in float, and the steps take most of the time.
    """

    op_types = ("GRU", "LSTM", "RNN")
    stays_float = (
        "TensorRT computes its steps in float, with and without pairs: its state is a float tensor inside the layer"
    )


TRAITS = {op_type: Traits(is_layer=True, multiplies_inside=True) for op_type in _Recurrent.op_types}
OP = _Recurrent()
