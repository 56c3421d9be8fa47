"""What to do about an operator that TensorRT does not have, or not for its type of data, by kind of operator."""

_QUANTIZED = ("DynamicQuantize", "MatMulInteger", "ConvInteger", "QAttention", "QMoE", "QOrdered")
_NORMALIZED = ("QLinear", "QGemm", "MatMulNBits", "GatherBlockQuantized")
_QONNX = frozenset({"Quant", "IntQuant"})
_TRAINING = frozenset(
    {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "Adagrad", "Adam", "Momentum", "Gradient"}
)
_NO_TENSORS = ("Sequence", "Optional", "String", "Regex", "TfIdf", "SplitToSequence", "ConcatFromSequence", "Image")


def hint_for(op_type: str | None) -> str:
    """Return how to do without an operator.

    Args:
        op_type: The operator, as TensorRT's parser names it, so without its domain; None where it names none.
    """
    name = op_type or ""
    if name.startswith(_NORMALIZED) or name in _QONNX:
        return "`qdqtool normalize MODEL -o OUT` writes it as QuantizeLinear and DequantizeLinear"
    if name.startswith(_QUANTIZED):
        return "quantize with QuantizeLinear and DequantizeLinear nodes"
    if name == "DequantizeLinear":
        return "shift the codes by 128 to int8 with zero point 0: the values stay the same"
    if name in _TRAINING:
        return "it belongs to training: export the model for inference"
    if name.startswith(_NO_TENSORS):
        return "it works on what TensorRT does not hold (sequences, strings, images): do that outside the engine"
    return "export the model without it, or run that part outside the engine"
