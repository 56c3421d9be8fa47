"""ONNX test data: folders ``test_data_set_N`` with ``input_0.pb``, ``input_1.pb``, ..., one for each input in order.

The path is one such folder, or a folder with several of them. Each such folder is one run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.tensors import is_external
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.media.files import by_number, only_inside
from qdqtool.samples.sample import Sample
from qdqtool.samples.signature import InputSpec, needed

ACCEPTS = "folder of ONNX test_data_set_* folders"
_FIRST = "input_0.pb"


def accepts(path: Path) -> bool:
    """Return whether ``path`` is a folder of test data."""
    return path.is_dir() and bool(_sets(path))


@dataclass(frozen=True, slots=True)
class DataSetSamples:
    """The samples of test data; each folder holds one sample."""

    sets: tuple[Path, ...]
    specs: tuple[InputSpec, ...]

    def __iter__(self) -> Iterator[Sample]:
        for folder in self.sets:
            arrays = {spec.name: _array(folder / f"input_{index}.pb") for index, spec in enumerate(self.specs)}
            yield Sample(arrays, files=(folder.name,))


def read(path: Path, specs: Sequence[InputSpec]) -> DataSetSamples:
    """Read the samples of a folder."""
    sets, specs = _sets(path), needed(specs)
    for folder in sets:
        _check_files(folder, specs)
        only_inside(path, folder.glob("input_*.pb"))
    return DataSetSamples(sets, specs)


def _sets(path: Path) -> tuple[Path, ...]:
    if (path / _FIRST).is_file():
        return (path,)
    inner = (folder for folder in path.glob("test_data_set_*") if (folder / _FIRST).is_file())
    return tuple(sorted(inner, key=by_number))


def _check_files(folder: Path, specs: Sequence[InputSpec]) -> None:
    wanted = {f"input_{index}.pb": spec.name for index, spec in enumerate(specs)}
    found = {file.name for file in folder.glob("input_*.pb")}
    missing = [name for name in wanted if name not in found]
    if missing:
        raise UsageError(f"{folder} has no {missing[0]}, the file of input '{wanted[missing[0]]}'")
    more = sorted(found - set(wanted))
    if more:
        names = ", ".join(spec.name for spec in specs) or "none"
        raise UsageError(f"{folder} has {more[0]}, and the model has only {len(specs)} inputs: {names}")


def _array(file: Path) -> Array:
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(file.read_bytes())
        # A tensor could name any file of the machine as its external data.
        if is_external(tensor):
            raise UsageError(f"{file} keeps its data in another file, which is not followed")
        return np.asarray(numpy_helper.to_array(tensor))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    except (DecodeError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{file} is no TensorProto with data: {error}") from None
