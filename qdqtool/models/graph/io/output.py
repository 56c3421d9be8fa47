"""Write outputs: a file (or the file that a link points to) is replaced when it is complete; a stream is written into.

A stream is a device, a pipe, or any descriptor that this process inherited (``/dev/stdout``, ``/dev/fd/3``). It is not
replaced: a file in place of ``/dev/null`` would break the machine. If the shell opened a file for ``> report.txt``,
replacing it would lose everything else that is printed there.
"""

import contextlib
import errno
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from qdqtool.errors import OutputError, UsageError
from qdqtool.models.scratch import ScratchFolder, note, scratch_file, uninterrupted

STDOUT = Path("/dev/stdout")

_OPEN_FILES = re.compile(r"/proc/(?P<process>\d+)(/task/\d+)?/fd")
_MOST_LINKS = 40
_MOST_NAME_BYTES = 255
"""Largest size of a file name on all common file systems."""
_STDOUT_DESCRIPTOR = 1


@dataclass(slots=True)
class _Streams:
    """The descriptor to write to instead of the original descriptor."""

    stdout: int = _STDOUT_DESCRIPTOR


_STREAMS = _Streams()


@dataclass(frozen=True, slots=True)
class Destination:
    """The file or stream that an output path refers to.

    Attributes:
        path: The file to replace or create (never a link), or the stream to open.
        descriptor: The open descriptor of this process that the path names; None for other paths.
        is_stream: Whether the output is written into, not replaced.
    """

    path: Path
    descriptor: int | None = None
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class Staged:
    """An output that is written under a temporary name."""

    file: Path
    destination: Destination

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file; written data is on the disk when the block ends."""
        with self.file.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def publish(self, *, then_remove: Sequence[Path] = ()) -> None:
        """Put the file in its place, at the end of the :func:`together` block if there is one; or copy it to a stream.

        Args:
            then_remove: Files to remove when this output and all others of the block are in place.
        """
        group = _GROUP.get()
        if self.destination.is_stream:
            with self.file.open("rb") as source, _stream(self.destination) as target:
                shutil.copyfileobj(source, target)
        elif group is not None:
            group.files.append(self)
            group.stale.extend(then_remove)
        else:
            _put([self], then_remove)


@dataclass(frozen=True, slots=True)
class _Together:
    """Outputs that are put in place in one step, files to remove then, and a stack that removes temporary files."""

    stack: contextlib.ExitStack
    files: list[Staged]
    stale: list[Path]


_GROUP: ContextVar[_Together | None] = ContextVar("group", default=None)


def destination(path: Path) -> Destination:
    """Follow an output path to the file or stream that it refers to.

    Raises:
        OutputError: It is a circle of links, or its name is too long.
    """
    size = len(os.fsencode(path.name))
    if size > _MOST_NAME_BYTES:
        text = f"output {path.name[:40]}… has a name of {size} bytes; at most {_MOST_NAME_BYTES} are possible"
        raise OutputError(text, hint="give the output, or the model that it is named after, a shorter name")
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(path.parent)
        opened = _OPEN_FILES.fullmatch(folder)
        if path.name.isdecimal() and (opened or folder == "/dev/fd"):
            # A file that another process has open is opened again; the path in the link may name another file now.
            own = opened is None or int(opened["process"]) == os.getpid()
            return Destination(path, int(path.name) if own else None, is_stream=True)
        if not path.is_symlink():
            return Destination(path, is_stream=path.exists() and not path.is_file() and not path.is_dir())
        path = path.parent / path.readlink()
    raise OutputError(f"output {path} is a link that leads back to itself")


def check_outputs(paths: Sequence[Path], inputs: list[Path]) -> None:
    """Check each output of a job with :func:`check_output`; also check that all outputs are different files.

    Raises:
        UsageError: Two outputs are the same file, or one is an input.
    """
    for path in paths:
        check_output(path, inputs)
    files = [path.resolve() for path in paths if not is_stream(path)]
    if len(set(files)) < len(files):
        raise UsageError("two outputs have the same name", hint="name a file for each of them")


def is_stdout(path: Path) -> bool:
    """Return whether an output is the stdout of this process."""
    return destination(path).descriptor == _STDOUT_DESCRIPTOR


def is_stream(path: Path) -> bool:
    """Return whether an output is a device, a pipe or a descriptor. No file can be written next to it."""
    return destination(path).is_stream


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[IO[bytes]]:
    """Open an output. If the block succeeds, the output is replaced or written; if it fails, it is unchanged."""
    with output_errors(path), staged(path) as aside:
        with aside.open() as file:
            yield file
        aside.publish()


def write_output(path: Path, data: bytes) -> None:
    """Write a small output."""
    with open_output(path) as file:
        file.write(data)


@contextlib.contextmanager
def staged(path: Path) -> Iterator[Staged]:
    """Make an empty file that can become the output, for writers that need a path; remove it when the block ends."""
    target, group = destination(path), _GROUP.get()
    with contextlib.ExitStack() as own:
        stack = own if group is None else group.stack
        with output_errors(path):
            # In the same folder, because a rename is atomic only within a file system.
            folder = stack.enter_context(ScratchFolder()).path if target.is_stream else target.path.parent
            file = stack.enter_context(scratch_file(folder, target.path.name))
        yield Staged(file, target)


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Put all outputs of the block in place at its end, or none of them; a signal cannot interrupt this step."""
    if _GROUP.get() is not None:
        yield
        return
    with contextlib.ExitStack() as stack:
        group = _Together(stack, [], [])
        token = _GROUP.set(group)
        try:
            yield
        finally:
            _GROUP.reset(token)
        _put(group.files, group.stale)


def _put(files: Sequence[Staged], stale: Sequence[Path]) -> None:
    """Rename files to their final names, in this order; then remove the stale files."""
    for each in files:
        _set_usual_mode(each.file, each.destination.path)
    with uninterrupted():
        for each in files:
            each.file.replace(each.destination.path)
            note(b"=", each.destination.path)
        for path in stale:
            path.unlink(missing_ok=True)


def check_output(path: Path, inputs: list[Path]) -> None:
    """Check that ``path`` can be an output: its folder exists, and it is no input and no external data of an input.

    Raises:
        OutputError: The folder is missing, or ``path`` is a folder.
        UsageError: ``path`` is one of the inputs, or external data of one.
    """
    # Most callers never write over a file, and need no onnx for this check.
    from qdqtool.models.graph.io.external import data_files

    target = destination(path)
    if target.is_stream:
        return
    if target.path.is_dir():
        raise OutputError(f"output {path} is a folder", hint="name a file in it")
    folder = target.path.parent
    if not folder.is_dir():
        hint = f"create it first: `mkdir -p {shlex.quote(str(folder))}`"
        raise OutputError(f"output folder {folder} does not exist", hint=hint)
    read = [each for source in inputs for each in (source, *data_files(source))] if target.path.exists() else []
    if any(source.exists() and source.samefile(target.path) for source in read):
        raise UsageError(f"output {path} is also an input; inputs are never overwritten", hint="name another file")


def shows_stdout() -> bool:
    """Return whether stdout is shown on a terminal."""
    return os.isatty(_STREAMS.stdout)


def reserve_stdout() -> None:
    """Reserve stdout for an output: this process and its libraries print to stderr from now on."""
    if _STREAMS.stdout != _STDOUT_DESCRIPTOR:
        return
    sys.stdout.flush()
    _STREAMS.stdout = os.dup(_STDOUT_DESCRIPTOR)
    os.dup2(sys.stderr.fileno(), _STDOUT_DESCRIPTOR)


@contextlib.contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Turn a system error while an output is written into an :class:`~qdqtool.errors.OutputError`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = "no space left on the device" if error.errno == errno.ENOSPC else error.strerror or str(error)
        left = "the data written so far is incomplete" if is_stream(path) else "nothing was left behind"
        raise OutputError(f"{path} cannot be written: {reason}; {left}") from None


@contextlib.contextmanager
def _stream(target: Destination) -> Iterator[IO[bytes]]:
    if target.descriptor is None:
        file = target.path.open("wb")
    else:
        number = _STREAMS.stdout if target.descriptor == _STDOUT_DESCRIPTOR else target.descriptor
        file = os.fdopen(os.dup(number), "wb")
    try:
        yield file
        file.flush()
    finally:
        # Data that could not be written is still in the buffer, and writing it would fail again.
        with contextlib.suppress(OSError):
            file.close()


def _set_usual_mode(file: Path, target: Path) -> None:
    if target.exists():
        shutil.copymode(target, file)
        return
    # mkstemp creates files with mode 0600. The only way to read the umask is to set it.
    mask = os.umask(0)
    os.umask(mask)
    file.chmod(0o666 & ~mask)
