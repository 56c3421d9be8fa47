"""Time and memory of commands on models whose weights are gigabytes.

    python benchmarks/large_models.py [--layers 10 20 42] [--folder FOLDER] [--steps quantize strip]
    pytest -m large tests/benchmarks/test_large_models.py     # 42 layers, against the limits below; about an hour

A decoder with random float16 weights in external data is written for each number of layers: 1.6 GB for 10, 2.9 GB for
20, 5.9 GB for 42. Each step is the command line in a process of its own: seconds from start to exit, processor seconds,
peak resident memory, and how much of it is anonymous at most, looked at every 20 ms: the rest are pages of mapped
files, which the system takes back when it needs them. Files are deleted at the end. See docs/developers/benchmarks.md.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.comparison.decoder import Decoder, Size

PLAN = 'schema_version = 1\n[[tensors]]\ntensor = "*.weight"\nformat = "int8"\nscale = 0.01\n'
POLL = 0.02
WIDTH = 2048
"""Width of the decoders that the limits are of."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a command took: seconds, processor seconds, bytes resident and bytes anonymous at most, exit code."""

    wall: float
    cpu: float
    peak: int
    anonymous: int
    code: int

    def __str__(self) -> str:
        memory = f"{self.peak / 1e9:5.2f} GB, {self.anonymous / 1e9:5.2f} GB anonymous"
        return f"{self.wall:7.1f} s {self.cpu:7.1f} CPU s {memory}, exit code {self.code}"


def run(words: list[str], folder: Path) -> Taken:
    """Run a command of the command line."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "qdqtool", *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    highest = [0, 0]
    watch = threading.Thread(target=_watch, args=(process.pid, highest), daemon=True)
    watch.start()
    _, status, usage = os.wait4(process.pid, 0)
    watch.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begin
    return Taken(seconds, usage.ru_utime + usage.ru_stime, *highest, process.returncode)


def _watch(pid: int, highest: list[int]) -> None:
    """Note the most resident and the most anonymous memory until the process has ended. Linux tells them.

    The most of each process is added up, which is no less than the most of all. ``ru_maxrss`` is no use: Linux counts
    into it what the process that started the command had taken.
    """
    with contextlib.suppress(OSError):
        while True:
            # The command line starts a process of its own for the work.
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
            seen = [_memory(each) for each in (str(pid), *children)]
            highest[:] = (max(before, sum(now)) for before, now in zip(highest, zip(*seen, strict=True), strict=True))
            time.sleep(POLL)


def _memory(pid: str) -> tuple[int, int]:
    """Return the most bytes of a process that were resident so far, and those that are anonymous now."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
        values = dict(line.split(":", 1) for line in lines)
        return _bytes(values.get("VmHWM", "")), _bytes(values.get("RssAnon", ""))
    return 0, 0


def _bytes(kilobytes: str) -> int:
    return int(kilobytes.removesuffix("kB") or 0) * 1024


SAMPLES = 8

_QUANTIZE = ("quantize", "m.onnx", "--target", "tensorrt-rtx")
_DATA = ("--calib-data", "c.npz", "-o", "s.onnx")


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and the most memory that it may take: bytes resident without data, bytes anonymous with data."""

    words: tuple[str, ...]
    most_resident: float = float("inf")
    most_anonymous: float = float("inf")

    def holds(self, taken: Taken) -> bool:
        """Whether it ended well and stayed below its limits. What the system did not tell, 0, is below none."""
        seen = 0 < taken.peak <= self.most_resident and 0 < taken.anonymous <= self.most_anonymous
        return not taken.code and seen


STEPS = {
    "quantize": Step((*_QUANTIZE, "--quantize-mode", "int4", "-o", "q.onnx"), most_resident=1e9),
    "validate": Step(("validate", "q.onnx", "--target", "tensorrt-rtx"), most_resident=1e9),
    "diff": Step(("diff", "m.onnx", "q.onnx"), most_resident=1e9),
    "strip": Step(("strip", "q.onnx", "-o", "s.onnx"), most_resident=1e9),
    "insert": Step(("insert", "m.onnx", "--plan", "p.toml", "-o", "s.onnx"), most_resident=1e9),
    "int8": Step((*_QUANTIZE, "--quantize-mode", "int8", *_DATA), most_anonymous=2.5e9),
    "gptq": Step((*_QUANTIZE, "--quantize-mode", "int4", *_DATA), most_anonymous=2.5e9),
}
"""The result of ``quantize`` is read by later steps. ``gptq`` has AWQ too: int4 with data has both by default."""


def write_files(folder: Path, size: Size) -> int:
    """Write what the steps read: model, plan and samples; return the bytes of the model."""
    (folder / "p.toml").write_text(PLAN, encoding="utf-8")
    tokens = np.random.default_rng(0).integers(0, size.vocabulary, (SAMPLES, size.tokens))
    np.savez(folder / "c.npz", input_ids=tokens)
    return Decoder(size).write(folder / "m.onnx")


def take(step: Step, folder: Path) -> Taken:
    """Run a step, and delete what no other one reads."""
    taken = run(list(step.words), folder)
    for path in folder.glob("s.onnx*"):
        path.unlink()
    return taken


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="+", default=[10, 20, 42], help="one model for each number")
    parser.add_argument("--folder", type=Path, default=None, help="where the files go; default that of temporary files")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--width", type=int, default=WIDTH, help="without limits if not the default")
    options = parser.parse_args()
    for layers in options.layers:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            folder, size = Path(name), Size(layers, width=options.width, inner=4 * options.width)
            nbytes = write_files(folder, size)
            print(f"{layers} layers, {size.parameters / 1e9:.2f} B parameters, {nbytes / 1e9:.2f} GB", flush=True)
            for step in options.steps:
                taken = take(STEPS[step], folder)
                verdict = "" if options.width != WIDTH or STEPS[step].holds(taken) else ", NOT within its limits"
                print(f"  {step:9} {taken}{verdict}", flush=True)


if __name__ == "__main__":
    main()
