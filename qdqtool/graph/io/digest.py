"""A digest of what a model computes: the same however its weights are stored, another after any change of them."""

import hashlib

import onnx
from onnx import TensorProto

from qdqtool.graph.io.tensors import iter_tensors, read_bytes
from qdqtool.graph.io.without_weights import without_weights
from qdqtool.graph.model import Model

_NOTES = ("doc_string", "producer_name", "producer_version", "metadata_props", "model_version")
_DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data")


def model_digest(model: Model) -> str:
    """The sha256 of a model as hexadecimal digits: its graph and every stored value, read one tensor at a time.

    Left out are the notes at its top (producer, version, description, metadata), and where and in which field of the
    file tensors keep their data.
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
        return b"".join(len(text).to_bytes(8, "little") + text for text in tensor.string_data)
    return read_bytes(model, tensor)
