"""int4 weights in blocks of input channels, activations in float."""

from qdqtool.quantization.planning.modes._mode import Mode

# In blocks only: TensorRT for RTX has no kernel for int4 with one scale for each output channel. It dequantizes
# such a weight in a kernel of its own, and multiplies in float.
MODE = Mode(
    summary="int4 weights in blocks, float activations",
    weights="int4",
    blocks=(128, 64, 32),
    search=True,
    rank=50,
)
