"""Many models at once: a process each, so that none can stop the others."""

import contextlib
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from qdqtool.pipeline.policy import Judge, Policy
from qdqtool.pipeline.validate_report import ModelReport


def judge_files(paths: list[Path], policy: Policy, jobs: int) -> list[ModelReport]:
    """The reports of ``paths`` in their order.

    Raises:
        ArgumentError: The policy names a target or a rule that does not exist.
    """
    judge = Judge(policy)  # here too, so that a wrong policy is told once and at once
    workers = min(jobs, len(paths))
    if workers <= 1:
        return [judge.file(path) for path in paths]
    reports: dict[Path, ModelReport] = {}
    waiting = list(dict.fromkeys(paths))
    while waiting:
        reports |= _together(waiting, policy, workers)
        waiting = [path for path in waiting if path not in reports]
        # one of those that were being read killed its process and the pool with it: which, only each alone tells
        for path in waiting[: workers + 1]:
            reports[path] = _alone(path, policy)
        waiting = waiting[workers + 1 :]
    return [reports[path] for path in paths]


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
