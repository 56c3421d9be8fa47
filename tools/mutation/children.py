"""Work in forked children: each begins where this process stands, and what it breaks goes with it."""

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


class Timed(Protocol):
    """A task that says how long it takes."""

    @property
    def seconds(self) -> float:
        """How long it is expected to take."""


Task = TypeVar("Task", bound=Timed)
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """What children may use.

    Attributes:
        jobs: How many run side by side.
        least: Seconds that each may take at least.
        slack: How much longer each may take than it is expected to.
    """

    jobs: int
    least: float = 15.0
    slack: float = 6.0


@dataclass(frozen=True, slots=True)
class _Child(Generic[Task]):
    task: Task
    process: int
    deadline: float


def in_children(
    tasks: Iterable[Task], work: Callable[[Task], Result], limits: Limits
) -> Iterator[tuple[Task, Result | None]]:
    """Do each task in a child of its own.

    Args:
        tasks: What to do.
        work: Does it, and returns what JSON can hold.
        limits: How many at once, and how long.

    Yields:
        Each task with its result, as they end; None for a child that crashed or was not done in time.
    """
    waiting = iter(tasks)
    running: dict[int, _Child[Task]] = {}
    try:
        while True:
            while len(running) < limits.jobs and (task := next(waiting, None)) is not None:
                running |= _start(task, work, limits.least + limits.slack * task.seconds)
            if not running:
                return
            yield from _ended(running)
    finally:
        for child in running.values():
            _end(child.process)


def _start(task: Task, work: Callable[[Task], Result], seconds: float) -> dict[int, _Child[Task]]:
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return {reading: _Child(task, process, time.monotonic() + seconds)}
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        os.write(writing, json.dumps(work(task)).encode())
    finally:
        os._exit(0)


def _ended(running: dict[int, _Child[Task]]) -> Iterator[tuple[Task, Result | None]]:
    nearest = min(child.deadline for child in running.values())
    readable, _, _ = select.select(list(running), [], [], max(0.0, nearest - time.monotonic()))
    late = [each for each, child in running.items() if child.deadline <= time.monotonic() and each not in readable]
    for each in (*readable, *late):
        child = running.pop(each)
        result = json.loads(os.read(each, 1 << 16) or b"null") if each in readable else None
        os.close(each)
        _end(child.process)
        yield child.task, result


def _end(process: int) -> None:
    # Its group too: a test may have started processes that it cannot end any more.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
