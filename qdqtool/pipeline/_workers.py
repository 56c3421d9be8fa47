"""Many models at once: a process each, so that none can stop the others."""

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
    reports: dict[int, ModelReport] = {}
    with _pool(workers) as pool:
        futures = [pool.submit(_judge, path, policy) for path in paths]
        try:
            for index, future in enumerate(futures):
                try:
                    reports[index] = future.result()
                except BrokenProcessPool:
                    continue  # one of them killed its process and took the pool with it
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [reports[index] if index in reports else _alone(path, policy) for index, path in enumerate(paths)]


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
