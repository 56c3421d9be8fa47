"""Operators whose result depends on the type of their input, not only on its values."""

from qdqtool.models.ops._traits import Traits

TRAITS = {
    "BitCast": Traits(stays_float32="it reads the bits of a float32"),
    "EyeLike": Traits(stays_float32="its output may take the type of its input"),
}
