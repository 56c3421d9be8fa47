"""Every command on every ONNX file that can be found: no internal error, no hang, no output worse than its source.

    python benchmarks/corpus.py [--nodes] [--files FOLDER...] [--mutations 5000] [--every 1] [--limit 60] [--json FILE]

The files are ONNX's own node tests (``--nodes``), every ``.onnx`` file below the given folders (default: the installed
packages), and copies of the small ones among them with bits changed and bytes left out or put in (``--mutations``,
seeded). Each goes through inspect, validate for four targets, strip, normalize, check and quantize. A file fails where

- a command ends with an internal error (exit code 5), or a crash of the process,
- a command takes longer than the limit in seconds,
- ``onnx.checker`` or ONNX Runtime refuses an output, and accepts the source.

Printed are the counts of exit codes by command and every failure; the exit code is 1 if there is one.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

TARGETS = ("tensorrt", "tensorrt-rtx", "ort-cpu", "onnx")
WRITERS = ("strip", "normalize", "quantize", "quantize-weights")
LARGEST_BASE = 200_000
"""Bytes of files that mutations are made of."""

INTERNAL_ERROR = 5


@dataclass
class Outcome:
    """What became of one file.

    Attributes:
        name: The file, or the node test.
        codes: Exit code by command.
        failures: What went wrong, in words.
        seconds: The time of all commands.
    """

    name: str
    codes: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0


def main() -> None:
    """Run the corpus and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", action="store_true", help="ONNX's node tests")
    parser.add_argument("--files", type=Path, nargs="*", help="folders; none: the installed packages")
    parser.add_argument("--mutations", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="only every n-th file")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one command")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = list(_sources(arguments, Path(folder)))[:: arguments.every]
        outcomes = list(_run_all(files, arguments.limit, arguments.workers))
    _print(outcomes)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1), encoding="utf-8")
    sys.exit(any(each.failures for each in outcomes))


def _sources(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield names and files; those that are made are made in the folder."""
    plain: list[tuple[str, Path]] = []
    if arguments.nodes:
        plain += _node_tests(folder)
    if arguments.files is not None:
        folders = arguments.files or [Path(each) for each in sys.path if each.endswith("site-packages")]
        plain += [(str(path), path) for top in folders for path in sorted(top.rglob("*.onnx"))]
    if not arguments.mutations:
        yield from plain
        return
    yield from _mutations(plain, arguments.mutations, folder)


def _node_tests(folder: Path) -> Iterator[tuple[str, Path]]:
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    for number, case in enumerate(collect_testcases(None)):
        if case.model is not None:
            path = folder / f"{number}.onnx"
            onnx.save(case.model, path)
            yield case.name, path


def _mutations(bases: list[tuple[str, Path]], count: int, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield damaged copies: one or two places where a bit is changed, or bytes are left out or put in."""
    small = [(name, path) for name, path in bases if path.stat().st_size <= LARGEST_BASE]
    for number in range(count):
        draw = random.Random(number)
        name, source = draw.choice(small)
        content = bytearray(source.read_bytes())
        # Mostly single bits: with other bytes, left out or put in, hardly a file can be parsed.
        for _ in range(draw.choice((1, 1, 2))):
            place, kind = draw.randrange(max(1, len(content))), draw.randrange(10)
            if kind > 1:
                content[place] ^= 1 << draw.randrange(7)
            else:
                content[place : place + kind * draw.choice((1, 2, 8))] = draw.randbytes(0 if kind else 1)
        path = folder / f"mutation{number}.onnx"
        path.write_bytes(content)
        yield f"mutation {number} of {name}", path


def _run_all(files: list[tuple[str, Path]], limit: float, workers: int) -> Iterator[Outcome]:
    """Share the files among processes, each of which is replaced when it crashes or exceeds the limit."""
    waiting, running = list(reversed(files)), [_Worker(limit) for _ in range(workers)]
    done = 0
    while waiting or any(worker.outcome for worker in running):
        for worker in running:
            if worker.outcome is None and waiting:
                worker.start(*waiting.pop())
            finished = worker.poll()
            if finished is not None:
                done += 1
                if done % 100 == 0:
                    print(f"{done} of {len(files)}", file=sys.stderr, flush=True)
                yield finished
        time.sleep(0.002)
    for worker in running:
        worker.stop()


class _Worker:
    """One process that runs all commands on one file after another."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self.outcome: Outcome | None = None
        self._open()

    def _open(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def start(self, name: str, path: Path) -> None:
        """Begin with a file."""
        self.outcome, self._command, self._begun = Outcome(name), "", time.monotonic()
        self._pipe.send(str(path))

    def poll(self) -> Outcome | None:
        """Return the outcome of the file once there is nothing left to do on it."""
        outcome = self.outcome
        if outcome is None:
            return None
        try:
            while self._pipe.poll():
                kind, *what = self._pipe.recv()
                if kind == "begin":
                    self._command, self._begun = what[0], time.monotonic()
                elif kind == "code":
                    outcome.codes[self._command] = what[0]
                elif kind == "failure":
                    outcome.failures.append(f"{self._command}: {what[0]}")
                else:
                    outcome.seconds = what[0]
                    self.outcome = None
                    return outcome
        except (EOFError, OSError):
            self._process.join()
            return self._give_up(f"{self._command}: the process ended with {self._process.exitcode}")
        if time.monotonic() - self._begun > self._limit:
            self._process.kill()
            return self._give_up(f"{self._command}: took longer than {self._limit:g} s")
        return None

    def _give_up(self, failure: str) -> Outcome:
        outcome = self.outcome
        assert outcome is not None
        outcome.failures.append(failure)
        self.outcome = None
        self._open()
        return outcome

    def stop(self) -> None:
        """End the process."""
        self._process.kill()


def _serve(pipe: Connection) -> None:
    """Run the commands on every file whose path arrives."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    while True:
        path = Path(pipe.recv())
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            _commands(path, Path(folder), pipe)
        pipe.send(("done", time.monotonic() - begun))


def _commands(path: Path, folder: Path, pipe: Connection) -> None:
    accepted: set[str] | None = None
    for name, words in _lines(path, folder).items():
        pipe.send(("begin", name))
        code, text = _invoke(words)
        pipe.send(("code", code))
        if code == INTERNAL_ERROR:
            pipe.send(("failure", text.strip().splitlines()[-2:]))
        out = folder / f"{name}.onnx"
        if name in WRITERS and out.exists():
            accepted = _accepting(path) if accepted is None else accepted
            for judge in accepted - _accepting(out):
                pipe.send(("failure", f"{judge} refuses the output, and accepts the source"))


def _lines(path: Path, folder: Path) -> dict[str, list[str]]:
    """Return the command lines by name."""
    model = str(path)
    lines = {"inspect": ["inspect", model]}
    lines |= {f"validate {target}": ["validate", model, "--target", target, "--no-parser"] for target in TARGETS}
    return lines | {
        "strip": ["strip", model, "-o", str(folder / "strip.onnx")],
        "normalize": ["normalize", model, "-o", str(folder / "normalize.onnx")],
        "check": ["check", model, "--samples", "2"],
        "quantize": ["quantize", model, "--random-calibration", "--samples", "3", "-o", str(folder / "quantize.onnx")],
        "quantize-weights": [
            *("quantize", model, "--quantize-mode", "int8-weight-only"),
            *("-o", str(folder / "quantize-weights.onnx")),
        ],
    }


def _invoke(words: list[str]) -> tuple[int, str]:
    """Run a command in this process; return its exit code and what it printed."""
    from qdqtool.__main__ import main as command

    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            command(words)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 1, text.getvalue()
    return 0, text.getvalue()


def _accepting(path: Path) -> set[str]:
    """Return which of onnx.checker and ONNX Runtime accept a file."""
    import onnx
    import onnxruntime

    found = set()
    with contextlib.suppress(Exception):
        onnx.checker.check_model(str(path), full_check=False)
        found.add("onnx.checker")
    with contextlib.suppress(Exception):
        onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        found.add("ONNX Runtime")
    return found


def _print(outcomes: list[Outcome]) -> None:
    commands = dict.fromkeys(name for each in outcomes for name in each.codes)
    print(f"{len(outcomes)} files, {sum(each.seconds for each in outcomes):.0f} s")
    for name in commands:
        codes = Counter(each.codes[name] for each in outcomes if name in each.codes)
        print(f"  {name:22} " + "  ".join(f"exit {code}: {count}" for code, count in sorted(codes.items())))
    bad = [each for each in outcomes if each.failures]
    print(f"{len(bad)} files with failures")
    for each in bad:
        print(f"  {each.name}: {'; '.join(map(str, each.failures))}")


if __name__ == "__main__":
    main()
