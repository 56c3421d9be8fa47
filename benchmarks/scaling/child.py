"""Run one command of qdqtool in this process and print what it took: ``child.py WARM COMMAND``, both JSON lists.

The command line WARM runs first, on the smallest model: what is imported and compiled once is no part of growth.
"""

import contextlib
import functools
import json
import os
import resource
import sys
import time
from pathlib import Path

import onnxruntime

from qdqtool.cli import command


def main() -> None:
    """Print processor seconds, seconds, and the bytes of memory beyond those before, as JSON.

    ``opening`` is that part of the processor seconds in which ONNX Runtime opens sessions.
    """
    warm, words = (json.loads(argument) for argument in sys.argv[1:3])
    run(warm)
    opening = watch_sessions()
    before, cpu, wall = peak(), time.process_time(), time.perf_counter()
    run(words)
    taken = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "peak": peak() - before}
    print(json.dumps({**taken, "opening": sum(opening)}))


def watch_sessions() -> list[float]:
    """Return a list that gets the processor seconds of each ``InferenceSession`` that is made from now on."""
    seconds: list[float] = []
    make = onnxruntime.InferenceSession.__init__

    @functools.wraps(make)
    def timed(*arguments: object, **options: object) -> None:
        start = time.process_time()
        try:
            make(*arguments, **options)
        finally:
            seconds.append(time.process_time() - start)

    onnxruntime.InferenceSession.__init__ = timed
    return seconds


def run(words: list[str]) -> None:
    """Run a command line; findings are no failure."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        code = command.main(words, standalone_mode=False)
    if code not in (None, 0, 1):
        raise SystemExit(f"{' '.join(words)} ended with code {code}")


def peak() -> int:
    """The largest memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # Linux counts the memory of the process that started this one into ru_maxrss.
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
