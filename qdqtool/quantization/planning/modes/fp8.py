"""fp8 E4M3 for activations (per-tensor) and weights (per output channel)."""

from qdqtool.quantization.planning.modes._mode import Mode

MODE = Mode(summary="fp8 E4M3 activations and weights", weights="float8e4m3fn", activations="float8e4m3fn", rank=20)
