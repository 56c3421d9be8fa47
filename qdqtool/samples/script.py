"""Functions in Python scripts of the user: found by ``FILE.py:func``, loaded and called; an error becomes one line.

Only a script that the user names on the command line or in a call is executed. Its output goes to stderr, because
stdout is for reports.
"""

import contextlib
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from qdqtool.errors import UsageError
from qdqtool.registry import suggestion


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of the user.

    Attributes:
        name: Name of the function.
        function: The function.
        file: The file that defines the function; None if there is no such file.
        is_script: Whether the user named the file; messages then name it too.
    """

    name: str
    function: Callable[..., Any]
    file: Path | None = None
    is_script: bool = False

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "UserFunction":
        """Describe a function that a caller passed."""
        plain = inspect.unwrap(function)
        file = None
        # Built-in functions and instances with __call__ have no source.
        with contextlib.suppress(TypeError):
            file = inspect.getsourcefile(plain)
        name = getattr(plain, "__qualname__", type(plain).__qualname__)
        return cls(name, function, Path(file) if file is not None else None)

    @property
    def where(self) -> str:
        """The file and name of the function, for messages."""
        return f"{self.file}: {self.name}()" if self.is_script else f"{self.name}()"

    @property
    def line(self) -> int | None:
        """The first line of the function's definition; None if unknown."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return code.co_firstlineno if code is not None else None

    def running(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the function may run: its output goes to stderr, and an error becomes one line."""
        return _running(self.file, self.where)


def split_script(word: str) -> tuple[Path, str] | None:
    """Split ``FILE.py:func`` into file and function, ``""`` for ``FILE.py`` alone; return None for any other text.

    The file need not exist.
    """
    if word.endswith(".py"):
        return Path(word), ""
    file, colon, name = word.rpartition(":")
    return (Path(file), name) if colon and name.isidentifier() and file.endswith(".py") else None


def load_function(file: Path, name: str, purpose: str) -> UserFunction:
    """Execute a script and return one of its functions.

    Args:
        file: The script.
        name: Name of the function.
        purpose: What the function does, for the hint: ``yielding …``.

    Raises:
        UsageError: The script does not exist or fails, or has no such function.
    """
    if not file.is_file():
        raise UsageError(f"script {file}: no such file")
    module = _load(file)
    function = getattr(module, name, None)
    if not callable(function):
        legal = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UsageError(
            f"{file} has no function '{name}'{suggestion(name, legal)}",
            hint=f"define {name}(), {purpose}, or name another: {file}:func",
        )
    return UserFunction(name, function, file, is_script=True)


class _SourceLoader(importlib.machinery.SourceFileLoader):
    """Compiles a script each time: cached code could be out of date, and no cache file should be written."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  as its base has it
        return self.source_to_code(self.get_data(self.path), self.path)


def _load(file: Path) -> ModuleType:
    name = f"qdqtool_data_{file.stem}"
    spec = importlib.util.spec_from_loader(name, _SourceLoader(name, str(file.resolve())))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # `python FILE.py` does the same, so that the script can import modules of its folder.
    sys.path.insert(0, str(file.resolve().parent))
    try:
        with _running(file, str(file)):
            spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.resolve().parent))
    return module


@contextlib.contextmanager
def _running(file: Path | None, where: str) -> Iterator[None]:
    """Run the user's code in the block: its output goes to stderr, and an exception becomes one line."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (KeyboardInterrupt, GeneratorExit):
        raise
    # A script may call sys.exit(), and a library may panic; neither is an Exception.
    except BaseException as error:
        line = _line_in(file, error.__traceback__) if file is not None else None
        at = f" in line {line}" if line is not None else ""
        raise UsageError(f"{where} raised {type(error).__name__}{at}: {error}") from error


def _line_in(file: Path, traceback: TracebackType | None) -> int | None:
    line = None
    while traceback is not None:
        if Path(traceback.tb_frame.f_code.co_filename).resolve() == file.resolve():
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
