"""Operators that read an image at computed positions."""

from qdqtool.models.ops._traits import Traits

_PLACES = Traits(
    stays_float32="it reads positions in an image: for 640 pixels, the steps of float16 are up to half a pixel"
)

TRAITS = {"AffineGrid": _PLACES, "GridSample": _PLACES, "RoiAlign": _PLACES}
