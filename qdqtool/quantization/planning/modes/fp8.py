"""fp8 E4M3 on both sides: activations per-tensor, weights per output channel."""

from qdqtool.quantization.planning.modes._mode import Mode

MODE = Mode(summary="fp8 E4M3 activations and weights", weights="float8e4m3fn", activations="float8e4m3fn", rank=20)
