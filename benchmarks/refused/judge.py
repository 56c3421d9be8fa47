"""Asks the real parser and builder about many models in few processes; a process that a model kills is replaced."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import IO, Any

from benchmarks.networks.processes import ROOT
from qdqtool.engines.tensorrt.process import signal_name

CHILD = "benchmarks.refused.judge_child"


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one model.

    Attributes:
        stage: ``built``, or the stage that refused: ``parse``, ``build``.
        errors: Errors of the parser, as ``builders/parsing.py`` records them.
        further: Those of further nodes.
        log: Severities and messages of the builder's errors.
        layers: The layer dump, if the request has ``layers``.
        end: How the process ended where the model ended it: a signal, or ``timeout``.
    """

    stage: str
    errors: list[dict[str, Any]] = field(default_factory=list)
    further: list[dict[str, Any]] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    layers: str = ""
    end: str = ""


class Judge:
    """One warm child process.

    Args:
        module: The TensorRT package to import there.
        seconds: The time limit for one model.
    """

    def __init__(self, module: str, seconds: float) -> None:
        self._module, self._seconds = module, seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def ask(self, request: dict[str, Any]) -> Judged:
        """Return what the parser and the builder say of a model."""
        child = self._child if self._child is not None and self._child.poll() is None else self._start()
        facts: dict[str, Any] = {"stage": "parse"}
        with contextlib.suppress(OSError):
            assert child.stdin is not None
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
        deadline = time.monotonic() + self._seconds
        while not facts.pop("done", False):
            try:
                line = self._lines.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                self.stop()
                return Judged(**facts, end="" if facts.get("errors") else "timeout")
            if line is None:
                code = child.wait()
                self.stop()
                return Judged(**facts, end="" if facts.get("errors") else signal_name(-code))
            facts |= json.loads(line)
        return Judged(**facts)

    def stop(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        self._reader.join()
        for pipe in (child.stdin, child.stdout):
            # A request that was not read any more cannot be flushed.
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        self._lines = queue.SimpleQueue()
        self._child = subprocess.Popen(
            [sys.executable, "-m", CHILD, self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._reader = threading.Thread(target=_forward, args=(self._child.stdout, self._lines), daemon=True)
        self._reader.start()
        return self._child


def _forward(source: IO[bytes] | None, lines: "queue.SimpleQueue[bytes | None]") -> None:
    assert source is not None
    for line in source:
        lines.put(line)
    lines.put(None)
