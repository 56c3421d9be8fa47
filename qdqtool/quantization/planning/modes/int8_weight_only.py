"""int8 weights per output channel, activations in float."""

from qdqtool.quantization.planning.modes._mode import Mode

MODE = Mode(summary="int8 weights, float activations", weights="int8", rank=30)
