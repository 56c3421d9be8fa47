"""A warm child process that parses models one after another, each with a time limit."""

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from qdqtool.engines.tensorrt.process import Child, signal_name, start_child


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of parsing one model.

    Attributes:
        end: ``done``; ``died`` if the model killed the process; ``timed out``; ``absent`` if the module cannot be
            loaded.
        facts: ``version``, ``errors`` and ``further``, as far as they are known.
        problem: How the process died, or why the module cannot be loaded.
    """

    end: Literal["done", "died", "timed out", "absent"]
    facts: dict[str, Any]
    problem: str = ""


class ParserProcess:
    """Runs the parser of one TensorRT product; a process that died or hangs is replaced for the next model.

    Args:
        module: The TensorRT package to import in the process.
        seconds: The time limit for one model, including the start of the process.
        further_seconds: The time limit for the search for further refused nodes.
    """

    def __init__(self, module: str, *, seconds: float, further_seconds: float) -> None:
        self._module, self._seconds, self._further = module, seconds, further_seconds
        self._child: Child | None = None
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._version: dict[str, Any] = {}
        self._is_over = False

    def start(self) -> None:
        """Start the process; it loads the library while the caller continues."""
        if self._child is not None:
            return
        self._child = start_child("parser_child", self._module, output=subprocess.PIPE, errors=subprocess.DEVNULL)
        self._lines, self._version = queue.SimpleQueue(), {}
        # A thread reads, since not every system can wait for a pipe with a time limit.
        threading.Thread(target=_forward, args=(self._child.stdout, self._lines), daemon=True).start()

    def ask(self, path: Path, plugins: str = "") -> Parsed:
        """Parse a model; the caller has checked that its external data is in its folder.

        Args:
            path: The file.
            plugins: The note of its plugin operators; empty without plugins.
        """
        if self._is_over:
            return Parsed("absent", {}, "its process was stopped")
        self.start()
        deadline = time.monotonic() + self._seconds
        facts: dict[str, Any] = {}
        try:
            if not self._version:
                self._version = next(self._answers(deadline), {"problem": "its process ends at once"})
            if "problem" in self._version:
                return Parsed("absent", {}, self._version["problem"])
            facts |= self._version
            self._send({"model": str(path.resolve()), "seconds": self._further, "plugins": plugins})
            for answer in self._answers(deadline):
                facts |= answer
                if answer.get("done"):
                    return Parsed("done", facts)
        except TimeoutError:
            self._end()
            # The search for further refused nodes may hang; the refusal itself is valid.
            return Parsed("done" if facts.get("errors") else "timed out", facts)
        return self._died(facts)

    def stop(self) -> None:
        """End the process for good; a call of :meth:`ask` in another thread ends too."""
        self._is_over = True
        self._end()

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            # A request that the child did not read cannot be flushed.
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()

    def _answers(self, deadline: float) -> Iterator[dict[str, Any]]:
        """Yield the lines of the child until it ends; raise TimeoutError at the deadline."""
        while True:
            try:
                line = self._lines.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                raise TimeoutError from None
            if line is None:
                return
            yield json.loads(line)

    def _send(self, request: dict[str, Any]) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.write(json.dumps(request).encode() + b"\n")
            self._child.stdin.flush()

    def _died(self, facts: dict[str, Any]) -> Parsed:
        child = self._child
        if child is None:
            return Parsed("absent", {}, "its process was stopped")
        code = child.wait()
        self._end()
        how = signal_name(-code) if code < 0 else f"exit status {code}"
        return Parsed("done" if facts.get("errors") else "died", facts, how)


def _forward(source: IO[bytes] | None, lines: "queue.SimpleQueue[bytes | None]") -> None:
    assert source is not None
    # The pipe may be closed while it is read.
    with contextlib.suppress(OSError, ValueError):
        for line in source:
            lines.put(line)
    lines.put(None)
