"""Many models at once: shared among processes where that pays, so that none can stop the others."""

import contextlib
import multiprocessing
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from time import perf_counter

from qdqtool.linting.policy import Judge, Policy
from qdqtool.linting.report import ModelReport

MOST_JOBS = 8
START_SECONDS = 1.0
"""What a process costs before it judges its first model, nearly all of it imports (0.7 s of CPU time measured)."""


def judge_files(paths: list[Path], policy: Policy, jobs: int | None) -> list[ModelReport]:
    """The reports of ``paths`` in their order.

    Args:
        paths: The files.
        policy: What to apply.
        jobs: Processes to share them among; None to start here and share what is left when that pays.

    Raises:
        ArgumentError: The policy names a target or a rule that does not exist.
    """
    judge = Judge(policy)  # here too, so that a wrong policy is told once and at once
    waiting = sorted(dict.fromkeys(paths), key=_size, reverse=True)  # a large one at the end would be waited for alone
    reports: dict[Path, ModelReport] = {}
    most = min(_cpus(), MOST_JOBS) if jobs is None else jobs
    if jobs is None or min(most, len(waiting)) == 1:
        reports = _here(waiting, judge, most)
        waiting = waiting[len(reports) :]
    workers = min(most, len(waiting))
    while waiting:
        reports |= _together(waiting, policy, workers)
        waiting = [path for path in waiting if path not in reports]
        # one of those that were being read killed its process and the pool with it: which, only each alone tells
        for path in waiting[: workers + 1]:
            reports[path] = _alone(path, policy)
        waiting = waiting[workers + 1 :]
    return [reports[path] for path in paths]


def _here(paths: list[Path], judge: Judge, most: int) -> dict[Path, ModelReport]:
    """The reports of the first of ``paths``, up to where it pays to share the rest among ``most`` processes."""
    reports: dict[Path, ModelReport] = {}
    begun, done, left = perf_counter(), 0, sum(map(_size, paths))
    for number, path in enumerate(paths):
        spent = perf_counter() - begun
        if spent > START_SECONDS and pays(spent * left / (done or 1), min(most, len(paths) - number)):
            break
        reports[path] = judge.file(path)
        done, left = done + _size(path), left - _size(path)
    return reports


def pays(seconds: float, workers: int) -> bool:
    """Whether sharing work of so many seconds among ``workers`` saves more than the start of a process costs."""
    return seconds * (1 - 1 / workers) > START_SECONDS


def _cpus() -> int:
    """The CPUs that this process may use: fewer than there are in many a container."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(path: Path) -> int:
    """The size of a file; 0 for one that is not there."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return 0


def _together(paths: list[Path], policy: Policy, workers: int) -> dict[Path, ModelReport]:
    """The reports of those models that were done before one of them, if any, killed its process."""
    reports = {}
    with _pool(workers) as pool:
        futures = {path: pool.submit(_judge, path, policy) for path in paths}
        try:
            for path, future in futures.items():
                with contextlib.suppress(BrokenProcessPool):
                    reports[path] = future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return reports


def _alone(path: Path, policy: Policy) -> ModelReport:
    with _pool(1) as pool:
        try:
            return pool.submit(_judge, path, policy).result()
        except BrokenProcessPool:
            return ModelReport(str(path), (), f"{path} cannot be read: the process that read it was killed")


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _start)


def _start() -> None:
    warnings.simplefilter("ignore")


def _judge(path: Path, policy: Policy) -> ModelReport:
    return Judge(policy).file(path)
