"""NVFP4 weights: fp4 E2M1 in blocks of 16. Their scales are fp8 E4M3 with one float32 scale; activations are float.

In standard ONNX this takes two DequantizeLinear nodes: one for the scales, the other for the weight.
"""

from qdqtool.quantization.planning.modes._mode import Mode

MODE = Mode(
    summary="fp4 weights in blocks of 16 with fp8 scales, float activations",
    weights="float4e2m1",
    blocks=(16,),
    scale_format="float8e4m3fn",
    search=True,
    alternative="int4",
    rank=60,
)
