"""The weights of a joint on which factors are tried: some columns of large ones."""

from collections.abc import Sequence

from qdqtool.models.graph.io.tensors import element_count
from qdqtool.models.transforms.joint_walk import Reader
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.preparation.factors.equalization import ReadWeight

MOST_WEIGHTS = 1 << 22
"""Elements of all weights of a joint; of larger ones, evenly spaced columns are tried. Each is rounded by itself."""


def tried_weights(readers: Sequence[Reader], read: ReadWeight) -> list[Array]:
    """Return the weight of each reader of a joint, ``[inputs, outputs]``, as a view.

    Every weight loses the same share of its columns, so each keeps its share of the error.

    Args:
        readers: The readers: MatMul or Gemm.
        read: Gives the values of a weight, as stored.
    """
    every = max(-(-sum(element_count(each.weight.tensor) for each in readers) // MOST_WEIGHTS), 1)
    # One group, and no kernel.
    return [each.weight.layout.canonical(read(each.weight))[0, ::every, :, 0].T for each in readers]
