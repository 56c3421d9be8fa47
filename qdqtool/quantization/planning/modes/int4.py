"""int4 weights in blocks of input channels, activations in float."""

from qdqtool.quantization.planning.modes._mode import Mode

# The format is used in blocks only: TensorRT for RTX has no kernel for int4 with one scale per output channel. It
# dequantizes such a weight in a separate kernel, and multiplies in float.
MODE = Mode(
    summary="int4 weights in blocks, float activations",
    weights="int4",
    blocks=(128, 64, 32),
    search=True,
    rank=50,
)
