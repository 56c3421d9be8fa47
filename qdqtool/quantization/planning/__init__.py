"""Plan a quantization: decide which tensors are quantized, in which formats and with which scales."""
