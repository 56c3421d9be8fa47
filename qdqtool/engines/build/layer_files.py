"""Read the layers and times of an engine from the JSON files of trtexec.

The profile is the file of ``--exportProfile``, which github.com/NVIDIA/TensorRT, ``samples/common/sampleReporting.cpp``
writes. It is a list: the number of inferences, then one entry for each layer in the order in which layers run. Names
are not escaped there, and a sum of 0 makes percentages that are no JSON. Early releases of TensorRT 8 have no
``medianMs``.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path

import msgspec

from qdqtool.engines.build.engine_map import EngineMap
from qdqtool.engines.report import Evidence
from qdqtool.engines.tensorrt.inspector import UnknownShapeError, read_dump, read_layers
from qdqtool.engines.tensorrt.kernels import Kernel
from qdqtool.errors import ModelError

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NOT_A_NUMBER = re.compile(r":\s*[-+]?(?:nan|inf)", re.IGNORECASE)
_LAYERS_HINT = "give the JSON file of trtexec --exportLayerInfo"
_PROFILE_HINT = "give the JSON file of trtexec --exportProfile"


def is_json(path: Path) -> bool:
    """Whether a file begins with a brace or a bracket, also after a byte order mark."""
    if not path.is_file():  # reading from a pipe would consume its content
        return False
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip(b"\xef\xbb\xbf\xfe\xff\0 \t\r\n")[:1] in {b"{", b"["}
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class LayerFile:
    """The layers of an engine, as a file lists them.

    Attributes:
        file: The file.
        kernels: The layers in order; a layer that is only a name has no layer type.
        evidence: The source of their types.
    """

    file: Path
    kernels: tuple[Kernel, ...]
    evidence: Evidence


def layers_of(engine: EngineMap) -> LayerFile:
    """Return the layers of an engine that ``build`` wrote."""
    kernels = msgspec.convert(engine.kernels, tuple[Kernel, ...], from_attributes=True)
    return LayerFile(Path(engine.manifest), kernels, engine.evidence)


class _OwnFile(msgspec.Struct, frozen=True):
    dump: str | None = msgspec.field(name="Dump", default=None)


def read_layer_file(file: Path) -> LayerFile:
    """Return the layers in a file of trtexec's ``--exportLayerInfo``, or of ``build --export-layer-info``.

    Raises:
        ModelError: The file cannot be read, or has no layers.
    """
    text = _text(file)
    if text.lstrip()[:1] == "[":
        what = "a profile of trtexec" if '"count"' in text[:200] else "a list"
        raise ModelError(
            f"{file} is {what}, not the layers of an engine", hint=f"{_LAYERS_HINT}, and a profile with --profile"
        )
    try:
        own = msgspec.json.decode(text, type=_OwnFile).dump
        is_dump = own is not None and not own.lstrip().startswith("{")
        kernels = read_dump(own) if own is not None and is_dump else read_layers(own or text)
    except (UnknownShapeError, msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ModelError(
            f"{file} is neither an ONNX model nor layers of an engine: {error}", hint=_LAYERS_HINT
        ) from None
    if not kernels:
        raise ModelError(f"{file} lists no layers", hint="build the engine with trtexec --profilingVerbosity=detailed")
    has_types = any(kernel.layer_type for kernel in kernels)
    return LayerFile(file, kernels, "aot-dump" if is_dump else "inspector" if has_types else "none")


def _text(file: Path) -> str:
    try:
        data = file.read_bytes()
        # PowerShell writes redirected output with a byte order mark.
        return data.decode("utf-16" if data.startswith(_UTF16) else "utf-8-sig")
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeError as error:
        raise ModelError(f"{file} is not text in UTF-8 or UTF-16: {error}") from None


class _Timed(msgspec.Struct, frozen=True):
    name: str | None = None
    count: int | None = None
    average: float | None = msgspec.field(name="averageMs", default=None)


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """A profile of trtexec.

    Attributes:
        file: Its file.
        runs: How many inferences were timed.
        times: Name and mean time in milliseconds of each layer, in order.
    """

    file: Path
    runs: int
    times: tuple[tuple[str, float], ...]


def read_profile(file: Path) -> LayerProfile:
    """Return the times in a file of trtexec's ``--exportProfile``.

    Raises:
        ModelError: The file cannot be read, is no profile, or has a time that is no number of at least 0.
    """
    first, *rest = _entries(_text(file), file) or (_Timed(),)
    if first.count is None or not rest:
        raise ModelError(f"{file} is no profile of trtexec: it has no count, or no layers", hint=_PROFILE_HINT)
    times = tuple(_times(rest, file))
    if first.count < 1 or not any(time for _, time in times):
        raise ModelError(f"{file} has no times: {first.count} inferences were timed", hint="profile more iterations")
    return LayerProfile(file, first.count, times)


def _entries(text: str, file: Path, *, is_raw: bool = True) -> tuple[_Timed, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[_Timed, ...])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        is_broken = not isinstance(error, msgspec.ValidationError)
        if is_broken and is_raw:
            return _entries("\n".join(map(_escaped, text.split("\n"))), file, is_raw=False)
        if is_broken and _NOT_A_NUMBER.search(text):
            raise ModelError(f"{file} has times that are no numbers (nan)", hint="profile more iterations") from None
        raise ModelError(f"{file} is no profile of trtexec: {error}", hint=_PROFILE_HINT) from None


def _escaped(line: str) -> str:
    """Escape the name of a layer: trtexec does not, and a quotation mark in it ends the JSON string."""
    before, start, rest = line.partition('"name" : "')
    name, end, after = rest.rpartition('", "timeMs" : ')
    return f"{before}{start}{json.dumps(name)[1:-1]}{end}{after}" if end else line


def _times(entries: Iterable[_Timed], file: Path) -> Iterator[tuple[str, float]]:
    for at, entry in enumerate(entries, 1):
        if entry.name is None or entry.average is None:
            key = "name" if entry.name is None else "averageMs"
            raise ModelError(f"{file} is a damaged profile: entry {at} has no {key}", hint=_PROFILE_HINT)
        if not 0 <= entry.average < inf:
            raise ModelError(
                f"{file} is a damaged profile: averageMs of '{entry.name}' is {entry.average}; expected 0 or more",
                hint=_PROFILE_HINT,
            )
        yield entry.name, entry.average
