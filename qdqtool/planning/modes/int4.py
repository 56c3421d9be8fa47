"""int4 weights in blocks of input channels, activations in float."""

from qdqtool.planning.modes._mode import Mode

MODE = Mode(
    summary="int4 weights in blocks, float activations",
    weights="int4",
    blocks=(128, 64, 32),
    search=True,
    rank=50,
)
