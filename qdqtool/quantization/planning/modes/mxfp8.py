"""MXFP8 weights of the OCP Microscaling standard: fp8 E4M3 in blocks of 32 with powers of two as scales (e8m0)."""

from qdqtool.quantization.planning.modes._mode import Mode

# TensorRT refuses float8e8m0 scales in a standard DQ: it supports MXFP8 only in its own operators (TRT_MXFP8...).
MODE = Mode(
    summary="fp8 E4M3 weights in blocks of 32 with power-of-two scales, float activations; no TensorRT",
    weights="float8e4m3fn",
    blocks=(32,),
    scale_format="float8e8m0",
    alternative="fp8-weight-only",
    rank=70,
)
