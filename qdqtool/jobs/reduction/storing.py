"""Write a reduced model so that it is easy to send: in one file where its weights are small."""

from pathlib import Path

from qdqtool.models.graph.io.save import ExternalData, SavedFiles, save_model
from qdqtool.models.graph.io.tensors import is_external, iter_tensors, nbytes
from qdqtool.models.graph.model import Model

INLINE_BYTES = 1 << 26
"""A model with fewer bytes of weights is stored in one file, whatever the given model does."""


def store(model: Model, path: Path) -> SavedFiles:
    """Write a model: in one file where its weights are small."""
    weights = sum(nbytes(tensor) for tensor in iter_tensors(model.proto) if is_external(tensor))
    inline = weights + model.proto.ByteSize() < INLINE_BYTES
    return save_model(model, path, external_data=ExternalData.NEVER if inline else ExternalData.AUTO)
