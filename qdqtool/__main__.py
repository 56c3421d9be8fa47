"""Entry point of the ``qdqtool`` command: run it and map each outcome to an exit code."""

import codecs
import contextlib
import errno
import gc
import io
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qdqtool.cli import command
from qdqtool.cli.supervisor import Lost, heed, supervise
from qdqtool.errors import QdqError, escape, human_bytes
from qdqtool.models.scratch import Ledger, left_behind

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

EXIT_USAGE = 2
EXIT_MODEL = 3
EXIT_MACHINE = 4
EXIT_BUG = 5
EXIT_INTERRUPTED = 130
EXIT_CLOSED_PIPE = 141
"""The exit code of other programs whose pipe is closed: SIGPIPE ends them."""

_LIMITS: dict[int | None, str] = {
    **dict.fromkeys(
        (errno.ENOSPC, errno.EDQUOT), "free some, or name another folder for temporary files: TMPDIR=FOLDER"
    ),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE, errno.EFBIG), "ulimit -a shows the limits of this shell"),
}
"""The hint for each error number that means that a limit of the system is reached."""
_NO_ROOM = re.compile("failed to map segment|cannot allocate memory|bad_alloc", re.IGNORECASE)
"""Matches the messages of the loader and of libraries if memory is short."""

_asked: list[int] = []
"""The signals that asked this process to end."""

_SPELLED = "qdqtool-spelled"
"""The error handler of stdout, for encodings such as ASCII or cp1252 that cannot encode every name or report."""


class StdoutError(Exception):
    """The output cannot be printed.

    It is not an OSError: click and rich turn the OSError of a closed pipe into exit code 1, which means findings.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror)
        self.is_closed_pipe = isinstance(error, BrokenPipeError)


class _Stdout(io.FileIO):
    def write(self, data: "Buffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise StdoutError(error) from None


def console() -> None:
    """Run the command line of this process in a child process, which a signal can end at any time."""
    _open_missing_streams()
    # If it cannot start its threads, OpenBLAS sends SIGINT to this process, which looks like Ctrl-C.
    with contextlib.suppress(ImportError):
        if _has_memory_limit():
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    finish = supervise(_lost)
    raw = io.BufferedWriter(_Stdout(sys.stdout.fileno(), "w", closefd=False))
    codecs.register_error(_SPELLED, _spell)
    errors = _SPELLED if sys.stdout.errors in {"strict", "surrogateescape"} else sys.stdout.errors
    sys.stdout = io.TextIOWrapper(raw, sys.stdout.encoding, errors, line_buffering=bool(sys.stdout.line_buffering))
    try:
        main()
    finally:
        finish()
        # The process ends. Without this, Python would search for garbage once more.
        gc.freeze()


def _spell(error: UnicodeError) -> tuple[str, int]:
    r"""Replace characters that the encoding of stdout lacks by ``\uXXXX``, which is legal in JSON too."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave the process with the documented exit code.

    Args:
        arguments: Command-line words; by default the words of this process.
    """
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    words = sys.argv[1:] if arguments is None else arguments
    try:
        _asked.clear()
        heed(_interrupt)
        code = _run(words)
    except (KeyboardInterrupt, click.Abort) as error:
        click.echo(err=True)  # the terminal has shown ^C
        reason = error.__cause__ or error
        code = _fail(words, str(reason) or f"interrupted; {_left()}", EXIT_INTERRUPTED)
    sys.exit(code)


def _interrupt(number: int, *_: object) -> None:
    # A CI job that is killed must clean up as after Ctrl-C.
    _asked.append(number)
    raise KeyboardInterrupt


def _run(words: list[str]) -> int:
    try:
        try:
            code = _invoke(words)
        # A library may catch KeyboardInterrupt: ONNX Runtime then says that it is not installed.
        except Exception:
            if _asked:
                raise KeyboardInterrupt from None
            raise
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return _fail(words, error.format_message(), error.exit_code, is_shown=True)
    except QdqError as error:
        # A library may be called absent that does not fit into memory.
        is_short = _NO_ROOM.search(str(error.__cause__))
        told = words, f"error: {error.message}", error.exit_code, error.hint
        return _system_error(words, MemoryError()) if is_short else _fail(*told)
    except (StdoutError, BrokenPipeError) as error:
        return _no_reader(error)
    except (MemoryError, OSError, ImportError) as error:
        return _system_error(words, error)
    except Exception as error:  # noqa: BLE001  the last line of defence: a bug must not look like a user's mistake
        return _bug(words, error)
    return code if isinstance(code, int) else 0


def _invoke(words: list[str]) -> object:
    """Run the command and return its result. ``click.Command.main`` would turn a closed pipe into exit code 1."""
    if "_QDQTOOL_COMPLETE" in os.environ:
        command.main(prog_name="qdqtool")
    try:
        with command.make_context("qdqtool", [*words]) as context:
            return command.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code


def _no_reader(error: Exception) -> int:
    """Return the exit code for a failed write to stdout, or to another stream that is an output."""
    # Python flushes stdout again at exit, and would print a second error.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, StdoutError) and not error.is_closed_pipe:
        return _fail((), f"error: stdout cannot be written: {error}; the report is incomplete", EXIT_USAGE)
    return EXIT_CLOSED_PIPE


def _system_error(words: Sequence[str], error: Exception) -> int:
    """Print an error of the machine or of a path; report any other error as a bug."""
    number = error.errno if isinstance(error, OSError) else None
    path = str(error.filename or "") if isinstance(error, OSError) else ""
    hint = _LIMITS.get(number)
    if isinstance(error, MemoryError) or number == errno.ENOMEM or _NO_ROOM.search(str(error)):
        message, code = "there is not enough memory", EXIT_MACHINE
    elif hint is not None and isinstance(error, OSError):
        message, code = f"{error.strerror}{f' for {path}' if path else ''}; {_left()}", EXIT_MACHINE
    elif number == errno.ENAMETOOLONG:
        message, code = f"the path {path[:40]}… is too long for the system", EXIT_USAGE
    elif number == errno.ENOENT and _is_folder_gone():
        message, code, hint = f"the current folder was removed; {_left()}", EXIT_USAGE, "go to another folder"
    else:
        return _bug(words, error)
    return _fail(words, f"error: {message}", code, hint)


def _is_folder_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _bug(words: Sequence[str], error: Exception) -> int:
    if os.environ.get("QDQTOOL_TRACEBACK"):
        raise error
    hint = "this is a bug in qdqtool; set QDQTOOL_TRACEBACK=1 to see where it is, and please report it with the model"
    return _fail(words, f"internal error: {type(error).__name__}: {error}", EXIT_BUG, hint)


def _lost(lost: Lost) -> int:
    """Print why the child process was ended, and return the exit code."""
    words, left = sys.argv[1:], left_behind(lost.outputs)
    if lost.asked:
        return _fail(words, f"interrupted; {left}", EXIT_INTERRUPTED)
    if lost.memory:
        hint = "the limit is 3/4 of the machine's memory, multiplied by the environment variable QDQTOOL_BOUNDS"
        taken = human_bytes(lost.memory)
        return _fail(words, f"error: the process was ended when it took {taken} of memory; {left}", EXIT_MACHINE, hint)
    if lost.signal == signal.SIGKILL:
        hint = "the system does this if memory runs out"
        return _fail(words, f"error: the process was killed; {left}", EXIT_MACHINE, hint)
    how = f"crashed with {signal.Signals(lost.signal).name}" if lost.signal else "ended the process"
    if lost.signal == 0 or _has_memory_limit():
        hint = "this happens if memory is short: ulimit -v shows the limit of this shell"
        return _fail(words, f"error: a library {how}; {left}", EXIT_MACHINE, hint)
    hint = "please report this crash with the model; a validation of the model may find the cause"
    return _fail(words, f"error: a library {how}; {left}", EXIT_MODEL, hint)


def _has_memory_limit() -> bool:
    import resource  # absent on Windows, where no process is supervised

    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _fail(words: Sequence[str], message: str, code: int, hint: str | None = None, *, is_shown: bool = False) -> int:
    """Print why there is no report: on stderr unless this was printed already, and on stdout if JSON was requested."""
    # Where nothing can be printed, the exit code still shows the failure.
    try:
        from qdqtool.reports.failure import Failure, tell, tell_programs

        failure = Failure(message, hint, code)
        with contextlib.suppress(OSError):
            if not is_shown:
                tell(failure)
        with contextlib.suppress(OSError):
            if _wants_json(words):
                tell_programs(failure)
                sys.stdout.flush()
    except (MemoryError, ImportError, OSError):
        with contextlib.suppress(OSError):
            os.write(2, f"{escape(message)}\n".encode())
    return code


def _left() -> str:
    """Describe the output files that this process has completed."""
    return left_behind(Ledger.current.outputs() if Ledger.current is not None else ())


def _wants_json(words: Sequence[str]) -> bool:
    """Whether the command line asks for JSON, even if it could not be parsed."""
    spelled = "=".join(words).replace("--output_format=", "--output-format=")
    return "--output-format=json" in spelled


def _open_missing_streams() -> None:
    # A shell may have closed them (>&-). Then the next opened file would get their number, and all that is printed.
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    for handle, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The number stays open when this object is deleted, because another object may print to it.
            setattr(sys, name, open(handle, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    console()
