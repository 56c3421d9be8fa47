"""A Dask scheduler and workers on this machine, each a process of its own."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from support.paths import ROOT

START_SECONDS = 60
"""A busy machine takes long to import Dask."""


class DaskCluster:
    """A scheduler, on a port that the system chooses; workers are added and killed.

    Args:
        folder: Where logs and the files of workers lie.

    Attributes:
        address: Of the scheduler.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self._start("scheduler", folder, "--no-show", "--scheduler-file", str(self._file))
        self._wait(self._address, self.processes[0])
        self.address = self._address()

    def add_worker(self, preload: str = "", *, wait: bool = True) -> subprocess.Popen[bytes]:
        """Start a worker without a nanny, in a folder of its own.

        Args:
            preload: Python code that it runs first.
            wait: Whether to wait until the scheduler has it.
        """
        folder = self._folder / f"worker{len(self.processes)}"
        folder.mkdir()
        options = ["--scheduler-file", str(self._file), "--nthreads", "1", "--no-nanny", "--memory-limit", "0"]
        if preload:
            (folder / "preload.py").write_text(preload, encoding="utf-8")
            options += ["--preload", str(folder / "preload.py")]
        process = self._start("worker", folder, *options, "--local-directory", str(folder))
        if wait:
            self._wait(lambda: "Registered to:" in (folder / "worker.log").read_text(encoding="utf-8"), process)
        return process

    def close(self) -> None:
        """End all processes."""
        for process in reversed(self.processes):
            process.kill()
        for process in self.processes:
            process.wait()

    def _start(self, what: str, folder: Path, *options: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "0",
        }
        with (folder / f"{what}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{what}", "--host", "127.0.0.1", "--no-dashboard"]
                + (["--port", "0"] if what == "scheduler" else [])
                + list(options),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def _address(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            return str(json.loads(self._file.read_text(encoding="utf-8"))["address"])
        return ""

    def _wait(self, is_ready: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + START_SECONDS
        while not is_ready():
            logs = [path.read_text(encoding="utf-8") for path in self._folder.rglob("*.log")]
            assert process.poll() is None, logs
            assert time.monotonic() < end, logs
            time.sleep(0.1)


@contextlib.contextmanager
def dask_cluster(folder: Path) -> Iterator[DaskCluster]:
    """A cluster without workers, which ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = DaskCluster(folder)
    try:
        yield cluster
    finally:
        cluster.close()
