"""int8 for activations (per-tensor) and weights (per output channel)."""

from qdqtool.quantization.planning.modes._mode import Mode

MODE = Mode(summary="int8 activations and weights", weights="int8", activations="int8", rank=10)
