"""Entry point of the ``qdqtool`` command: runs it and maps every way it can end to an exit code."""

import contextlib
import os
import signal
import sys
import warnings

import click

from qdqtool.cli import command
from qdqtool.errors import QdqError

EXIT_USAGE = 2
EXIT_BUG = 5
EXIT_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave the process with the documented exit code.

    Args:
        arguments: Command-line words; default those of the process.
    """
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(_run(arguments))


def _interrupt(_signal: int, _frame: object) -> None:
    # A CI job that is killed must clean up as after Ctrl-C.
    raise KeyboardInterrupt


def _run(arguments: list[str] | None) -> int:
    try:
        code = command.main(arguments, prog_name="qdqtool", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort) as error:
        _tell(str(error.__cause__ or error) or "interrupted; nothing was left behind")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return 0
    except QdqError as error:
        _tell(f"error: {error.message}", error.hint)
        return error.exit_code
    except Exception as error:  # noqa: BLE001  the last line of defence: a bug must not look like a user's mistake
        return _report_bug(error)
    return code if isinstance(code, int) else 0


def _tell(message: str, hint: str | None = None) -> None:
    from qdqtool.report.terminal import escape

    click.echo(escape(message), err=True)
    if hint:
        click.echo(f"hint: {escape(hint)}", err=True)


def _report_bug(error: Exception) -> int:
    if os.environ.get("QDQTOOL_TRACEBACK"):
        raise error
    _tell(
        f"internal error: {type(error).__name__}: {error}",
        "this is a bug in qdqtool; set QDQTOOL_TRACEBACK=1 to see where, and please report it with the model",
    )
    return EXIT_BUG


def _discard_stdout() -> None:
    # The reader of the pipe has closed it. Python flushes stdout again at exit, and would print a second error.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
