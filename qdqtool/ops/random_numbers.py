"""Operators that generate random numbers."""

from qdqtool.ops._traits import Traits

_RANDOM = Traits(stays_float32="it makes random numbers, in a type of its own")

TRAITS = {
    "Bernoulli": _RANDOM,
    "Multinomial": _RANDOM,
    "RandomNormal": _RANDOM,
    "RandomNormalLike": _RANDOM,
    "RandomUniform": _RANDOM,
    "RandomUniformLike": _RANDOM,
}
