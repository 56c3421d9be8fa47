"""fp8 E4M3 weights per output channel, activations in float."""

from qdqtool.quantization.planning.modes._mode import Mode

MODE = Mode(summary="fp8 E4M3 weights, float activations", weights="float8e4m3fn", rank=40)
