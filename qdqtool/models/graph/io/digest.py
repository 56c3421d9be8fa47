"""Compute a digest of a model that is independent of how its weights are stored; any changed weight changes it."""

import hashlib

import onnx
from onnx import TensorProto

from qdqtool.models.graph.io.tensors import iter_tensors, read_bytes
from qdqtool.models.graph.io.without_weights import without_weights
from qdqtool.models.graph.model import Model

_NOTES = ("doc_string", "producer_name", "producer_version", "metadata_props", "model_version")
_DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data")


def model_digest(model: Model) -> str:
    """Return the sha256 of a model as hexadecimal digits: of its graph and of every stored value, one tensor at a time.

    It leaves out the notes of the model (producer, version, description, metadata), and the place and field in which
    tensors keep their data.
    """
    structure = without_weights(model.proto)
    for field in _NOTES:
        structure.ClearField(field)
    for tensor in iter_tensors(structure):
        _clear_data(tensor)
    digest = hashlib.sha256(structure.SerializeToString(deterministic=True))
    for tensor in iter_tensors(model.proto):
        digest.update(_content(model, tensor))
    return digest.hexdigest()


def _clear_data(tensor: onnx.TensorProto) -> None:
    for field in (*_DATA, "data_location"):
        tensor.ClearField(field)


def _content(model: Model, tensor: onnx.TensorProto) -> bytes:
    if tensor.data_type == TensorProto.STRING:
        # The lengths keep ["ab", "c"] apart from ["a", "bc"].
        return b"".join(len(text).to_bytes(8, "little") + text for text in tensor.string_data)
    return read_bytes(model, tensor)
