"""Children do their work, and one that crashes or hangs ends without a result."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

from tools.mutation.children import Limits, in_children


@dataclass(frozen=True)
class Task:
    name: str
    seconds: float = 0.0


def work(task: Task) -> dict[str, Any]:
    if task.name == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if task.name == "raise":
        raise ValueError(task.name)
    if task.name == "hang":
        time.sleep(100)
    sys.stdout.write("noise")
    return {"name": task.name, "process": os.getpid()}


def test_each_task_has_a_child_of_its_own():
    tasks = [Task(str(number)) for number in range(5)]
    done = dict(in_children(tasks, work, Limits(jobs=2)))
    assert {task.name: result["name"] for task, result in done.items()} == {str(n): str(n) for n in range(5)}
    assert len({result["process"] for result in done.values()} | {os.getpid()}) == 6


def test_a_child_without_a_result_is_told_and_the_others_go_on():
    tasks = [Task("crash"), Task("raise"), Task("hang"), Task("fine")]
    began = time.monotonic()
    done = {task.name: result for task, result in in_children(tasks, work, Limits(jobs=2, least=1.0, slack=1.0))}
    assert {name: result is not None for name, result in done.items()} == {
        "crash": False,
        "raise": False,
        "hang": False,
        "fine": True,
    }
    assert time.monotonic() - began < 20


def test_a_task_that_is_expected_to_take_long_may():
    done = dict(in_children([Task("fine", seconds=5.0)], work, Limits(jobs=1, least=0.5)))
    assert next(iter(done.values())) is not None
