"""Run a command in a child process, so that a signal ends it in every phase and no incomplete files are left.

Python runs a signal handler only between two of its own instructions, never during a call of a library. For example,
onnx's shape inference looped forever on one operator and held the interpreter's lock. A Loop in a model may run for
hours. So the process that gets the signal does no work itself: it only waits for its child. It passes the signal on,
and kills its child if the child does not end in time. It also removes the files that a crashed child leaves. The fork
costs 2 ms, before anything heavy is imported.
"""

import contextlib
import mmap
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Never

from qdqtool.errors import UsageError
from qdqtool.models.scratch import ENDING, Ledger

GRACE = 3.0
"""Seconds that a child has to clean up after a signal. If Python can run at all, this takes milliseconds."""

_LOOK = 0.1
"""Seconds between two measurements of the memory of the child."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A child process that a signal or a library ended.

    Attributes:
        signal: What ended it; 0 for a library.
        asked: Whether the user asked for it, by a signal to this process.
        outputs: Names of the output files that were completed before.
        memory: Its memory in bytes if it was ended because it took too much; 0 otherwise.
    """

    signal: int
    asked: bool
    outputs: tuple[str, ...] = ()
    memory: int = 0


def supervise(lost: Callable[[Lost], int]) -> Callable[[], object]:
    """Continue in a child process; this process waits, and ends with the exit code of the child.

    The child calls the returned function at its end. If the child ends without that call, a library has ended it. For
    example, OpenBLAS exits with 1 if it gets no memory, but 1 means findings.

    Signals are blocked in the child until :func:`heed` is called. Without ``fork``, or if other threads run, this
    function does nothing.

    Args:
        lost: Reports a child that was ended early to the user, and returns the exit code.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return int
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    is_over = mmap.mmap(-1, 1)
    ledger = Ledger()
    end_of_child, end_of_parent = os.pipe()
    child = os.fork()
    if child:
        os.close(end_of_child)
        _Supervisor(child, ledger, lost).wait(is_over)
    os.close(end_of_parent)
    Ledger.current = ledger
    threading.Thread(target=_leave_with_the_parent, args=(end_of_child,), daemon=True).start()
    return partial(is_over.write, b"1")


def heed(handler: Callable[[int, FrameType | None], object]) -> None:
    """Call ``handler`` at the first signal that asks to end, and ignore later ones. Ignored signals stay ignored."""

    def first(number: int, frame: FrameType | None) -> None:
        for each in heeded:
            signal.signal(each, signal.SIG_IGN)
        handler(number, frame)

    # A shell starts processes that should survive it (nohup, &) with these signals ignored.
    heeded = [each for each in ENDING if signal.getsignal(each) is not signal.SIG_IGN]
    for each in heeded:
        signal.signal(each, first)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _leave_with_the_parent(pipe: int) -> None:
    # Only the parent has the other end, and never writes to it: end of file means that the parent was killed.
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    # The shell may have started both processes with SIGTERM ignored.
    if Ledger.current is not None:
        Ledger.current.remove_all()
    os.kill(os.getpid(), signal.SIGKILL)


class _Supervisor:
    """The parent of the process that does the work."""

    def __init__(self, child: int, ledger: Ledger, lost: Callable[[Lost], int]) -> None:
        self._child, self._ledger, self._lost = child, ledger, lost
        self._asked, self._memory = False, 0

    def wait(self, is_over: mmap.mmap) -> Never:
        """Wait for the child, and end with its exit code."""
        for each in ENDING:
            if signal.getsignal(each) is not signal.SIG_IGN:
                signal.signal(each, self._end)
        signal.signal(signal.SIGALRM, self._kill)
        # The signals are blocked in its thread: a signal there would not interrupt the call below.
        signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDING, signal.SIGALRM))
        # With a small limit of processes or address space, there is no thread.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._watch, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*ENDING, signal.SIGALRM))
        _, status = os.waitpid(self._child, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDING, signal.SIGALRM))
        self._ledger.remove_all()
        code = os.waitstatus_to_exitcode(status)
        is_lost = code < 0 or is_over[0] == 0
        os._exit(
            self._lost(Lost(max(-code, 0), self._asked, self._ledger.outputs(), self._memory)) if is_lost else code
        )

    def _watch(self) -> None:
        """End the child before it takes all memory, for example if a Loop of a model grows with its data."""
        try:
            from qdqtool.numerics.cores import growth_factor, machine_memory

            bound = 3 * machine_memory() // 4 * growth_factor()
        # The child reports an illegal factor; with few file handles, the module cannot be imported.
        except (UsageError, ImportError, OSError):
            return
        while (found := _memory(self._child)) <= bound:
            time.sleep(_LOOK)
        self._memory = found
        self._signal(signal.SIGKILL)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        if self._asked:
            # After a second signal, the user does not want to wait.
            self._signal(signal.SIGKILL)
            return
        self._asked = True
        # At Ctrl-C the terminal has already signaled the child, which ignores all signals except the first.
        self._signal(number)
        signal.setitimer(signal.ITIMER_REAL, GRACE)

    def _kill(self, _number: int, _frame: FrameType | None) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, number)


def _memory(process: int) -> int:
    """Return the anonymous memory of a process and its children in bytes; 0 if the system does not report it."""
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        total = int(status.partition("RssAnon:")[2].split()[0]) * 1024
        for each in Path(f"/proc/{process}/task").glob("*/children"):
            total += sum(map(_memory, map(int, each.read_text(encoding="utf-8").split())))
    return total
