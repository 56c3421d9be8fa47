"""Python scripts: ``FILE.py`` or ``FILE.py:func``, whose function (default ``load_data``) yields dicts of arrays.

The script is the user's own, named on the command line; nothing else is executed. It is loaded once. The function is
called again for each pass over the data, so it must give the same samples each time; one sample is kept at a time. Its
output goes to stderr, because stdout belongs to reports.
"""

import contextlib
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import numpy as np

from qdqtool.data.signature import InputSpec
from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.registry import suggestion

ACCEPTS = "Python script FILE.py[:func]"
DEFAULT_FUNCTION = "load_data"


def accepts(path: Path) -> bool:
    """Whether ``path`` is a Python file, or one followed by a function name."""
    return _split(path) is not None


@dataclass(frozen=True, slots=True)
class ScriptSamples:
    """The samples that the function yields; each iteration calls it again."""

    file: Path
    name: str
    function: Callable[[], Iterable[Any]]

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        where = f"{self.file}: {self.name}()"
        with _running(self.file, where):
            produced = iter(self.function())
        for number in itertools.count():
            with _running(self.file, where):
                sample = next(produced, None)
            if sample is None:
                return
            yield _arrays(sample, f"{where}, sample {number}")


def read(path: Path, specs: Sequence[InputSpec]) -> ScriptSamples:
    """Read the samples of a script, which is executed now.

    Raises:
        UsageError: The script fails, or has no such function.
    """
    del specs
    split = _split(path)
    assert split is not None
    file, name = split
    module = _load(file)
    function = getattr(module, name, None)
    if not callable(function):
        legal = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UsageError(
            f"{file} has no function '{name}'{suggestion(name, legal)}",
            hint=f"define {name}(), yielding one dict of arrays for each run, or name another: {file}:func",
        )
    return ScriptSamples(file, name, function)


def _split(path: Path) -> tuple[Path, str] | None:
    if path.suffix == ".py" and path.is_file():
        return path, DEFAULT_FUNCTION
    file, colon, name = str(path).rpartition(":")
    if colon and name.isidentifier() and file.endswith(".py") and Path(file).is_file():
        return Path(file), name
    return None


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"qdqtool_data_{file.stem}", file.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # As `python FILE.py` does, so that the script can import modules of its folder.
    sys.path.insert(0, str(file.resolve().parent))
    try:
        with _running(file, str(file)):
            spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.resolve().parent))
    return module


@contextlib.contextmanager
def _running(file: Path, where: str) -> Iterator[None]:
    """Run the user's code in the block: its output goes to stderr, its exceptions become one line."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    # A script may call sys.exit(); SystemExit is not an Exception.
    except (Exception, SystemExit) as error:
        line = _line_in(file, error.__traceback__)
        at = f" in line {line}" if line is not None else ""
        raise UsageError(f"{where} raised {type(error).__name__}{at}: {error}") from error


def _line_in(file: Path, traceback: TracebackType | None) -> int | None:
    line = None
    while traceback is not None:
        if Path(traceback.tb_frame.f_code.co_filename).resolve() == file.resolve():
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _arrays(sample: Any, where: str) -> dict[str, Array]:
    if not isinstance(sample, Mapping):
        raise UsageError(f"{where} is a {type(sample).__name__}, no dict of arrays by input name")
    arrays: dict[str, Array] = {}
    for name, value in sample.items():
        try:
            arrays[str(name)] = np.asarray(value)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{where}: input '{name}' is no array: {error}") from None
        if arrays[str(name)].dtype.hasobject:
            raise UsageError(f"{where}: input '{name}' holds Python objects of type {type(value).__name__}, no numbers")
    return arrays
