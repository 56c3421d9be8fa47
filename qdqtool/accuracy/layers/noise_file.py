"""Store the measured noise of layers in a file.

The file has a digest of model, plan and data. A file with another digest is refused.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.output import write_output
from qdqtool.numerics.dtypes import FLOAT64
from qdqtool.numerics.noise import Noise

SCHEMA_VERSION = 2
MAX_BYTES = 1 << 28

NoiseCache = dict[str, Noise]
"""The noise of each measured setting. ``alone 3`` means that only layer 3 is quantized; ``float 1 3``, that two layers
are in float. A secondary format and its layers follow: ``alone 3 int8-0c5f``, ``float 1 3 int8-0c5f 2 4``."""


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The measurement of one setting; rows are samples, columns are outputs.

    Attributes:
        signal: Power of each float output: the sum of its squares.
        noise: Power of the error of each output; None if it is infinite.
    """

    signal: list[list[float]]
    noise: list[list[float | None]]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A sensitivity file.

    Attributes:
        schema_version: Always 2 today.
        measured_on: SHA-256 of everything that the numbers depend on.
        layers: Labels of the layers, in the order of their numbers.
        outputs: Names of the float outputs.
        entries: The measurements by setting, such as ``alone 3`` for only layer 3 quantized.
    """

    schema_version: int
    measured_on: str
    layers: list[str]
    outputs: list[str]
    entries: dict[str, _Entry]


def alone_key(layer: int, fallback: str = "") -> str:
    """Return the key of the noise with only one layer quantized, in the fallback format if one is given."""
    return " ".join(["alone", str(layer), *filter(None, [fallback])])


def float_key(layers: Sequence[int], fallback: str = "", secondary: Sequence[int] = ()) -> str:
    """Return the key of the noise with some layers in float (may be none) and others in the secondary format."""
    behind = [fallback, *map(str, sorted(secondary))] if secondary else []
    return " ".join(["float", *map(str, sorted(layers)), *behind])


def write_noise(path: Path, measured_on: str, layers: list[str], outputs: list[str], cache: NoiseCache) -> None:
    """Write the measurements."""
    entries = {key: _Entry(signal=found.signal.tolist(), noise=found.noise.tolist()) for key, found in cache.items()}
    document = _File(
        schema_version=SCHEMA_VERSION, measured_on=measured_on, layers=layers, outputs=outputs, entries=entries
    )
    write_output(path, msgspec.json.encode(document) + b"\n")


def read_noise(path: Path, measured_on: str) -> NoiseCache:
    """Read the measurements.

    Raises:
        UsageError: The file is not a sensitivity file, has another version, or was measured on something else.
    """
    document = _decode(path)
    if document.measured_on != measured_on:
        raise UsageError(
            f"{path} was measured on another model, plan or data, or with other versions",
            hint="remove the file or name another one: it is measured anew",
        )
    return {key: _noise(path, entry, len(document.outputs)) for key, entry in document.entries.items()}


def _decode(path: Path) -> _File:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} has more than {MAX_BYTES >> 20} MiB: it is no sensitivity file")
        document = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise UsageError(f"sensitivity file {path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        reason = str(error).replace("`", "'")
        raise UsageError(f"{path} is no sensitivity file: {reason}") from None
    if document.schema_version != SCHEMA_VERSION:
        raise UsageError(
            f"sensitivity file {path} has schema version {document.schema_version}, and this qdqtool reads "
            f"{SCHEMA_VERSION}",
            hint="remove the file: it is measured anew",
        )
    return document


def _noise(path: Path, entry: _Entry, outputs: int) -> Noise:
    lengths = {*map(len, entry.signal), *map(len, entry.noise)}
    if len(entry.signal) != len(entry.noise) or not lengths <= {outputs}:
        raise UsageError(f"{path} contradicts itself: it has numbers for other outputs or samples than it names")
    signal = np.array(entry.signal, FLOAT64).reshape(-1, outputs)
    noise = [[np.inf if value is None else value for value in row] for row in entry.noise]
    return Noise(signal, np.array(noise, FLOAT64).reshape(-1, outputs))
