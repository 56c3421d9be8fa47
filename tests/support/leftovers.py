"""What tests leave behind: processes, listening ports, temporary files. A run that leaves any fails."""

import contextlib
import ctypes
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux: children of a child that ended become ours, so that they are seen."""
_OF_PYTHON = "multiprocessing.resource_tracker"
"""Ends with the process that it belongs to."""
GRACE_SECONDS = 5.0
"""How long a process may take to end after the last test."""


OF_LIBRARIES = "dask-scratch-space", ".org.chromium."
"""How the names begin of what Dask and sometimes Chromium leave in the folder for temporary files."""


def set_signals() -> None:
    """Give signals their usual effect here and in children: under ``nohup`` and behind ``&`` some are ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Leftovers:
    """Watches one process that runs tests.

    Args:
        folder: An empty folder for temporary files of this process and its children.
    """

    def __init__(self, folder: Path) -> None:
        self._me, self._folder = psutil.Process(), folder
        self._first_seen: dict[psutil.Process, str] = {}
        self._before = set(self._me.children(recursive=True))
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        tempfile.tempdir = str(folder)
        os.environ["TMPDIR"] = str(folder)

    def note(self, where: str) -> None:
        """Note the processes that are there after the tests of a file."""
        for process in self._me.children(recursive=True):
            self._first_seen.setdefault(process, where)

    def found(self) -> Iterator[str]:
        """Yield what is left, and end the processes."""
        self.note("the last file")
        left = [each for each in self._me.children(recursive=True) if each not in self._before]
        _, alive = psutil.wait_procs(left, timeout=GRACE_SECONDS)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                command = " ".join(process.cmdline())
                if _OF_PYTHON not in command:
                    yield f"process {command!r}, first seen after {self._first_seen[process]}"
                    process.kill()
        for each in self._me.net_connections(kind="inet"):
            if each.status == psutil.CONN_LISTEN:
                yield f"port {each.laddr.port}, which still listens"
        gc.collect()  # some files go with the object that reads them
        ours = (path.name for path in self._folder.iterdir() if not path.name.startswith(OF_LIBRARIES))
        yield from (f"temporary file {name}" for name in ours)
