"""Operators that read an image at computed positions."""

from qdqtool.models.ops._traits import Traits

_PLACES = Traits(
    stays_float32="it reads positions in an image: of 640 pixels, float16 tells every second only half apart"
)

TRAITS = {"AffineGrid": _PLACES, "GridSample": _PLACES, "RoiAlign": _PLACES}
