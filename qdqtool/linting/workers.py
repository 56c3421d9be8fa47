"""Lint many models, in several processes if that saves time. A model that kills its process does not stop others."""

import contextlib
import multiprocessing
import signal
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from time import perf_counter

from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.report import ModelReport
from qdqtool.numerics.cores import cores

MOST_JOBS = 8
START_SECONDS = 1.0
"""Time that a new process takes before its first model, nearly all of it for imports (measured: 0.7 s of CPU time)."""


def lint_files(paths: list[Path], policy: Policy, jobs: int | None) -> list[ModelReport]:
    """Return the reports of ``paths`` in their order.

    Args:
        paths: The files.
        policy: The policy.
        jobs: Number of processes. None starts in this process, and uses other processes for the rest if this saves
            time.
    """
    # The linter is also made here, so that a wrong policy is reported once, before any process starts.
    linter = Linter(policy)
    # Largest first: a large model at the end would run alone while the other processes wait.
    waiting = sorted(dict.fromkeys(paths), key=_size, reverse=True)
    reports: dict[Path, ModelReport] = {}
    most = min(cores(), MOST_JOBS) if jobs is None else jobs
    if jobs is None or min(most, len(waiting)) == 1:
        reports = _here(waiting, linter, most)
        waiting = waiting[len(reports) :]
    workers = min(most, len(waiting))
    while waiting:
        reports |= _together(waiting, policy, workers)
        waiting = [path for path in waiting if path not in reports]
        # A model killed its process. BrokenProcessPool then fails all models in progress without naming the model.
        # Each of them is read again alone.
        for path in waiting[: workers + 1]:
            reports[path] = _alone(path, policy)
        waiting = waiting[workers + 1 :]
    return [reports[path] for path in paths]


def _here(paths: list[Path], linter: Linter, most: int) -> dict[Path, ModelReport]:
    """Return the reports of the first ``paths``; stop when ``most`` processes would finish the rest sooner."""
    reports: dict[Path, ModelReport] = {}
    begun, done, left = perf_counter(), 0, sum(map(_size, paths))
    for number, path in enumerate(paths):
        spent = perf_counter() - begun
        if spent > START_SECONDS and parallel_pays(spent * left / (done or 1), min(most, len(paths) - number)):
            break
        reports[path] = linter.file(path)
        done, left = done + _size(path), left - _size(path)
    return reports


def parallel_pays(seconds: float, workers: int) -> bool:
    """Whether sharing work of this many seconds among ``workers`` saves more time than starting a process takes."""
    return seconds * (1 - 1 / workers) > START_SECONDS


def _size(path: Path) -> int:
    """Return the size of a file, or 0 if it does not exist."""
    try:
        return path.stat().st_size
    # ValueError: a NUL in the name.
    except (OSError, ValueError):
        return 0


def _together(paths: list[Path], policy: Policy, workers: int) -> dict[Path, ModelReport]:
    """Make the reports in several processes; return them without models that were lost because a process was killed."""
    reports = {}
    with _pool(workers) as pool:
        futures = {path: pool.submit(_judge, path, policy) for path in paths}
        for path, future in futures.items():
            with contextlib.suppress(BrokenProcessPool):
                reports[path] = future.result()
    return reports


def _alone(path: Path, policy: Policy) -> ModelReport:
    with _pool(1) as pool:
        try:
            return pool.submit(_judge, path, policy).result()
        except BrokenProcessPool:
            return ModelReport(str(path), (), f"{path} cannot be read: the process that read it was killed")


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _start) as pool:
        try:
            yield pool
        except BaseException:
            # At Ctrl-C the pool does not wait for its models: a library may never return.
            for worker in multiprocessing.active_children():
                worker.kill()
            raise


def _start() -> None:
    # Ctrl-C in a terminal reaches this process too; the parent process ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")


def _judge(path: Path, policy: Policy) -> ModelReport:
    return Linter(policy).file(path)
