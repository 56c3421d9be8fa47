"""Entry point of the ``qdqtool`` command: run it and map each outcome to an exit code."""

import codecs
import contextlib
import errno
import gc
import io
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from qdqtool.cli import command
from qdqtool.cli.supervisor import Lost, heed, supervise
from qdqtool.errors import QdqError
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

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}

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
    supervise(_lost)
    raw = io.BufferedWriter(_Stdout(sys.stdout.fileno(), "w", closefd=False))
    codecs.register_error(_SPELLED, _spell)
    errors = _SPELLED if sys.stdout.errors in {"strict", "surrogateescape"} else sys.stdout.errors
    sys.stdout = io.TextIOWrapper(raw, sys.stdout.encoding, errors, line_buffering=bool(sys.stdout.line_buffering))
    try:
        main()
    finally:
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
        heed(_interrupt)
        code = _run(words)
    except (KeyboardInterrupt, click.Abort) as error:
        click.echo(err=True)  # the terminal has shown ^C
        reason = error.__cause__ or error
        code = _fail(words, str(reason) or f"interrupted; {_left()}", EXIT_INTERRUPTED)
    sys.exit(code)


def _interrupt(*_: object) -> None:
    # A CI job that is killed must clean up as after Ctrl-C.
    raise KeyboardInterrupt


def _run(words: list[str]) -> int:
    try:
        code = _invoke(words)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return _fail(words, error.format_message(), error.exit_code, is_shown=True)
    except QdqError as error:
        return _fail(words, f"error: {error.message}", error.exit_code, error.hint)
    except (StdoutError, BrokenPipeError) as error:
        return _no_reader(error)
    except OSError as error:
        return _full_disk(words, error) if error.errno in _NO_SPACE else _bug(words, error)
    except Exception as error:  # noqa: BLE001  the last line of defence: a bug must not look like a user's mistake
        return _bug(words, error)
    return code if isinstance(code, int) else 0


def _invoke(words: list[str]) -> object:
    """Run the command like ``click.Command.main``, which would return the exit code of findings for a closed pipe."""
    if "_QDQTOOL_COMPLETE" in os.environ:
        command.main(prog_name="qdqtool")
    try:
        with command.make_context("qdqtool", [*words]) as context:
            return command.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code


def _no_reader(error: Exception) -> int:
    """Return the exit code if stdout, or an output that is a stream, cannot be written."""
    # Python flushes stdout again at exit, and would print a second error.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, StdoutError) and not error.is_closed_pipe:
        return _fail((), f"error: stdout cannot be written: {error}; the report is incomplete", EXIT_USAGE)
    return EXIT_CLOSED_PIPE


def _full_disk(words: Sequence[str], error: OSError) -> int:
    where = f" for {error.filename}" if error.filename else ""
    hint = "free some, or name another folder for temporary files: TMPDIR=FOLDER"
    return _fail(words, f"error: {error.strerror}{where}; {_left()}", EXIT_MACHINE, hint)


def _bug(words: Sequence[str], error: Exception) -> int:
    if os.environ.get("QDQTOOL_TRACEBACK"):
        raise error
    hint = "this is a bug in qdqtool; set QDQTOOL_TRACEBACK=1 to see where, and please report it with the model"
    return _fail(words, f"internal error: {type(error).__name__}: {error}", EXIT_BUG, hint)


def _lost(lost: Lost) -> int:
    """Tell of a process that did not end by itself."""
    words, name, left = sys.argv[1:], signal.Signals(lost.signal).name, left_behind(lost.outputs)
    if lost.asked:
        return _fail(words, f"interrupted; {left}", EXIT_INTERRUPTED)
    if lost.signal == signal.SIGKILL:
        hint = "the system does this where memory runs out"
        return _fail(words, f"error: the process was killed; {left}", EXIT_MACHINE, hint)
    hint = "please report it with the model; validating it may say what is wrong with it"
    return _fail(words, f"error: a library crashed with {name}; {left}", EXIT_MODEL, hint)


def _fail(words: Sequence[str], message: str, code: int, hint: str | None = None, *, is_shown: bool = False) -> int:
    """Print why there is no report: on stderr unless this was printed already, and on stdout if JSON was requested."""
    from qdqtool.reports.failure import Failure, tell, tell_programs

    failure = Failure(message, hint, code)
    # Where nothing can be printed, the exit code still shows the failure.
    with contextlib.suppress(OSError):
        if not is_shown:
            tell(failure)
    with contextlib.suppress(OSError):
        if _wants_json(words):
            tell_programs(failure)
            sys.stdout.flush()
    return code


def _left() -> str:
    """Describe the outputs that this process has put in place."""
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
