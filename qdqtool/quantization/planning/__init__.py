"""Plan a quantization: which tensors are quantized, in which formats and with which scales."""
