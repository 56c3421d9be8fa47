"""Softmax and its logarithm."""

from qdqtool.models.ops._span import within
from qdqtool.models.ops._traits import Traits

TRAITS = {
    "LogSoftmax": Traits(softmax=True, is_layer=True, lacks_int8=True),
    "Softmax": Traits(
        span=within(0, 1),
        nonnegative=True,
        bound=1.0,
        softmax=True,
        keeps_channels=True,
        is_layer=True,
        lacks_int8=True,
    ),
}
