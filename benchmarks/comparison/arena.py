"""Runs the contestants on one subject and measures what they make."""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.comparison import contestants, costs, coverage, engine, tables
from benchmarks.comparison.contestants import OURS, Contestant
from benchmarks.comparison.costs import Cost
from benchmarks.comparison.measured import FLOAT, Result, blank
from benchmarks.comparison.quality import Referee
from benchmarks.comparison.subjects import Subject

ONCE_SECONDS = 30
"""A command that takes longer is not repeated."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done.

    Attributes:
        repeats: Runs of each command on a heavy subject, interleaved; the smallest figures count.
        times: Whether time and memory are kept: of no use on a machine that does other things.
        judges: Whether the results are looked at: how good they are, what is quantized.
        engines: Whether TensorRT for RTX builds them.
        limit: Seconds that a command may take.
    """

    repeats: int
    times: bool = True
    judges: bool = True
    engines: bool = True
    limit: float = costs.LIMIT


@dataclass(slots=True)
class Arena:
    """One subject, and what is measured on it.

    Attributes:
        subject: The model with its data.
        effort: How much is done.
        folder: Where results are written.
    """

    subject: Subject
    effort: Effort
    folder: Path
    _plain: dict[int, Cost] = field(default_factory=dict)
    _names: dict[str, list[str]] = field(default_factory=dict)

    def compare(self, entered: Sequence[Contestant]) -> list[Result]:
        """The float model first, then every contestant in the order given; leaders before those who follow them."""
        first = blank(self.subject, None)
        results = {one: blank(self.subject, one) for one in entered}
        load = os.getloadavg()[0]
        results = self._race(results)
        for result in (first, *results.values()):
            self._keep_times(result, load)
        if self.effort.judges:
            self._judge_all(first, results)
        versions = tables.versions()
        for result in (first, *results.values()):
            result.versions = versions
        return [first, *results.values()]

    def _race(self, results: dict[Contestant, Result]) -> dict[Contestant, Result]:
        """Run everything ``repeats`` times in turn, the plain session too; without those who have nobody to follow."""
        left = dict(results)
        for repeat in range(self.effort.repeats if self.subject.heavy and self.effort.times else 1):
            counts = sorted({self.subject.samples, *(result.samples for result in results.values())})
            for samples in counts if self.effort.times else ():
                self._run_plain(samples)
            for one, result in list(left.items()):
                if one.follows and not repeat and not self._has_its_own_nodes(one, left):
                    del left[one]
                elif not (result.failed or (repeat and result.cost and result.cost.wall > ONCE_SECONDS)):
                    self._run(one, result)
        return left

    def _run_plain(self, samples: int) -> None:
        ended = costs.run(contestants.plain(self.subject, samples))
        if ended.code:
            raise SystemExit(f"{self.subject.name}: plain inference failed: {ended.complaint}")
        self._plain[samples] = ended.cost.best(self._plain.get(samples))

    def _run(self, one: Contestant, result: Result) -> None:
        print(f"{self.subject.name}: {one.label}", file=sys.stderr, flush=True)
        output = self._output(one.label)
        output.unlink(missing_ok=True)
        words = one.command(self.subject, result.samples, output)
        for name in self._names.get(one.follows, ()):
            words += ["--nodes-to-quantize", _literal(name)]
        ended = costs.run(words, self.effort.limit)
        if ended.code or not output.exists():
            result.failed = ended.complaint
        else:
            result.cost = ended.cost.best(result.cost)

    def _has_its_own_nodes(self, one: Contestant, results: dict[Contestant, Result]) -> bool:
        """Whether there is a leader, whose nodes are known in the float model and are not those of our defaults."""
        paths = {each.label: self._output(each.label) for each, result in results.items() if not result.failed}
        own = f"{OURS} {one.group}, {contestants.DEFAULT_METHOD}"
        if one.follows not in paths or own not in paths:
            return False
        known = coverage.names(self.subject.path)
        chosen = _quantized(paths[one.follows], known)
        self._names[one.follows] = sorted(known[name] for name in chosen & known.keys())
        return bool(chosen) and chosen <= known.keys() and chosen != _quantized(paths[own], known)

    def _keep_times(self, result: Result, load: float) -> None:
        if not self.effort.times:
            result.cost = None
            return
        result.load, result.baseline = load, self._plain.get(result.samples)
        result.cost = result.baseline if result.tool == FLOAT else result.cost

    def _judge_all(self, first: Result, results: dict[Contestant, Result]) -> None:
        referee = Referee(self.subject)
        first.quality = referee.reference()
        first.inspect(self.subject.path)
        self._build(first, self.subject.path)
        for one, result in results.items():
            if not result.failed:
                self._judge(result, self._output(one.label), referee)
                if contestants.is_built(one):
                    self._build(result, self._output(one.label))

    def _judge(self, result: Result, path: Path, referee: Referee) -> None:
        result.inspect(path)
        if not self._run_by_referee(result, path, referee) and result.tool == OURS:
            self._judge_stripped(result, path, referee)

    def _run_by_referee(self, result: Result, path: Path, referee: Referee) -> bool:
        try:
            result.quality = referee.judge(path)
        except Exception as error:  # noqa: BLE001 - whatever a model makes ONNX Runtime raise
            result.notes.append(f"ONNX Runtime does not run it: {str(error).splitlines()[0][:300]}")
        return result.quality is not None

    def _judge_stripped(self, result: Result, path: Path, referee: Referee) -> None:
        """Judge weights alone by what their codes stand for, in float: ONNX Runtime lacks some of the formats."""
        floats = path.with_suffix(".stripped.onnx")
        words = [sys.executable, "-m", "qdqtool", "strip", str(path), "-o", str(floats)]
        weights_only = result.coverage and not result.coverage.pairs
        if weights_only and not costs.run(words).code and self._run_by_referee(result, floats, referee):
            result.notes.append("SQNR after qdqtool strip turned the codes into float weights")

    def _build(self, result: Result, path: Path) -> None:
        if self.effort.engines:
            result.engine = engine.build(path, self.subject)

    def _output(self, label: str) -> Path:
        name = "".join(letter if letter.isalnum() else "_" for letter in f"{self.subject.name} {label}")
        return self.folder / f"{name}.onnx"


def _quantized(path: Path, known: Iterable[str]) -> set[str]:
    """Outputs of the quantized nodes; where all nodes are, those of the float model, whatever has been renamed."""
    counted = coverage.count(path)
    return set(known) if counted.full == counted.weighted else coverage.quantized(path)


def _literal(name: str) -> str:
    """A glob that matches this name alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
