"""Operators that generate random numbers."""

from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._traits import Traits


def _always(node: NodeView, constants: Constants) -> bool:
    # Also with a seed: ONNX Runtime 1.31.1 seeds once for each session and continues the sequence in the next run.
    return True


_RANDOM = Traits(random_if=_always, stays_float32="an attribute sets the type of its random numbers")

TRAITS = {
    "Bernoulli": _RANDOM,
    "Multinomial": _RANDOM,
    "RandomNormal": _RANDOM,
    "RandomNormalLike": _RANDOM,
    "RandomUniform": _RANDOM,
    "RandomUniformLike": _RANDOM,
}
