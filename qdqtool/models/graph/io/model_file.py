"""Compute size and digest of a model file and its external data; reports use them to recognize the model."""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx
from onnx import TensorProto

from qdqtool.errors import ModelError
from qdqtool.models.graph.io.copying import without_weights
from qdqtool.models.graph.io.external import external_files
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.tensors import iter_tensors, read_bytes
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import DataFile, ModelFile

_NOTES = ("doc_string", "producer_name", "producer_version", "metadata_props", "model_version")
_DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data")


def model_digest(model: Model) -> str:
    """Return the sha256 of the graph and of every stored value of a model, as hexadecimal digits.

    Tensors are read one at a time. The digest does not cover descriptive fields of the model (producer, version,
    description, metadata). It does not depend on the file or field in which a tensor keeps its data.
    """
    structure = without_weights(model.proto)
    for field in _NOTES:
        structure.ClearField(field)
    for tensor in iter_tensors(structure):
        for field in (*_DATA, "data_location"):
            tensor.ClearField(field)
    digest = hashlib.sha256(structure.SerializeToString(deterministic=True))
    for tensor in iter_tensors(model.proto):
        digest.update(_content(model, tensor))
    return digest.hexdigest()


def _content(model: Model, tensor: onnx.TensorProto) -> bytes:
    if tensor.data_type == TensorProto.STRING:
        # The lengths make ["ab", "c"] differ from ["a", "bc"].
        return b"".join(len(text).to_bytes(8, "little") + text for text in tensor.string_data)
    return read_bytes(model, tensor)


QUICK_BYTES = 64 << 20
"""Larger external data is not read only to compute its digest. Reading this much takes 0.05 s."""

_CHUNK = 1 << 18


def describe_file(
    model: Model, *, most_data: int | None = None, stopped: threading.Event | None = None
) -> ModelFile | None:
    """Return sizes and digests of the files of a model, or None if it was made in memory or its file is gone.

    Args:
        model: The model as it was read.
        most_data: Largest total size of external data, in bytes, of which digests are computed; None for no limit.
        stopped: An event that is set when the description is no longer needed.
    """
    if model.path is None:
        return None
    missing = {model.folder / location for location in model.missing_data}
    try:
        data = [path for path in external_files(model.proto, model.folder) if path not in missing]
        total = sum(path.stat().st_size for path in data)
        hashed = most_data is None or total <= most_data
        return ModelFile(
            bytes=model.path.stat().st_size,
            sha256=_digest(model.path),
            external_data=tuple(_data_file(path, hashed, stopped) for path in data),
        )
    except OSError:
        return None


@contextlib.contextmanager
def described_beside(model: Model) -> Iterator[Callable[[], ModelFile | None]]:
    """Describe the files of a model in a separate thread, which ends with the block.

    On one core, the digest of large weights takes as long as reading them.

    Yields:
        A function that waits for the description and returns it, like :func:`describe_file`.
    """
    stopped = threading.Event()
    with ThreadPoolExecutor(1, "digest") as pool:
        try:
            yield pool.submit(describe_file, model, stopped=stopped).result
        finally:
            stopped.set()


def describe_path(path: Path) -> ModelFile | None:
    """Return sizes and digests of the files of a model that is not loaded, or None if it cannot be read."""
    try:
        return describe_file(load_model(path, needs_data=False), most_data=QUICK_BYTES)
    except ModelError:
        return None


def require_written(name: str, sha256: str) -> None:
    """Check the digest in the name of a data file that :func:`qdqtool.models.graph.io.save.save_model` wrote.

    Raises:
        ModelError: The file has another content now.
    """
    found = re.search(r"\.([0-9a-f]{16})\.data$", name)
    if found is not None and not sha256.startswith(found[1]):
        raise ModelError(
            f"{name} was changed after it was written: its content has the digest {sha256[:16]}",
            hint="write the model again, or restore its data file",
        )


def _data_file(path: Path, hashed: bool, stopped: threading.Event | None) -> DataFile:
    sha256 = _digest(path, stopped) if hashed else None
    if sha256 is not None and not (stopped is not None and stopped.is_set()):
        require_written(path.name, sha256)
    return DataFile(name=path.name, bytes=path.stat().st_size, sha256=sha256)


def _digest(path: Path, stopped: threading.Event | None = None) -> str:
    digest, buffer = hashlib.sha256(), memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while (size := file.readinto(buffer)) and not (stopped is not None and stopped.is_set()):
            digest.update(buffer[:size])
    return digest.hexdigest()
