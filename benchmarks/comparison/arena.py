"""Runs the contestants on one subject and measures what they make."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.comparison import contestants, costs, engine
from benchmarks.comparison.contestants import OURS, Contestant
from benchmarks.comparison.costs import Cost
from benchmarks.comparison.measured import Result
from benchmarks.comparison.quality import Referee
from benchmarks.comparison.subjects import Subject

ONCE_SECONDS = 30
"""A command that takes longer is not repeated."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done.

    Attributes:
        repeats: Runs of each command on a heavy subject, interleaved; the smallest figures count.
        engines: Whether TensorRT for RTX builds the results.
    """

    repeats: int
    engines: bool


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

    def compare(self, entered: Sequence[Contestant]) -> list[Result]:
        """The float model first, then every contestant in the order given."""
        referee = Referee(self.subject)
        first = Result(self.subject, None, self.subject.samples, quality=referee.reference())
        first.inspect(self.subject.path)
        self._build(first, self.subject.path)
        results = {one.label: Result(self.subject, one, one.samples(self.subject)) for one in entered}
        self._race(entered, results)
        for one in entered:
            self._judge(results[one.label], self._output(one), referee)
        first.cost = first.baseline = self._plain.get(self.subject.samples)
        for result in results.values():
            result.baseline = self._plain.get(result.samples)
        return [first, *results.values()]

    def _race(self, entered: Sequence[Contestant], results: dict[str, Result]) -> None:
        """Run everything ``repeats`` times in turn, the plain session too."""
        for repeat in range(self.effort.repeats if self.subject.heavy else 1):
            for samples in sorted({self.subject.samples, *(result.samples for result in results.values())}):
                self._run_plain(samples)
            for one in entered:
                result = results[one.label]
                slow = repeat and result.cost and result.cost.wall > ONCE_SECONDS
                if not (slow or result.failed):
                    self._run(one, result)

    def _run_plain(self, samples: int) -> None:
        ended = costs.run(contestants.plain(self.subject, samples))
        if ended.code:
            raise SystemExit(f"{self.subject.name}: plain inference failed: {ended.complaint}")
        self._plain[samples] = ended.cost.best(self._plain.get(samples))

    def _run(self, one: Contestant, result: Result) -> None:
        print(f"{self.subject.name}: {one.label}", file=sys.stderr, flush=True)
        output = self._output(one)
        ended = costs.run(one.command(self.subject, result.samples, output))
        if ended.code or not output.exists():
            result.failed = ended.complaint
        else:
            result.cost = ended.cost.best(result.cost)

    def _judge(self, result: Result, path: Path, referee: Referee) -> None:
        if result.failed:
            return
        result.inspect(path)
        if not self._run_by_referee(result, path, referee) and result.contestant and result.contestant.tool == OURS:
            self._judge_stripped(result, path, referee)
        self._build(result, path)

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
        if self.effort.engines and (result.contestant is None or contestants.is_built(result.contestant)):
            result.engine = engine.build(path, self.subject)

    def _output(self, one: Contestant) -> Path:
        name = "".join(letter if letter.isalnum() else "_" for letter in f"{self.subject.name} {one.label}")
        return self.folder / f"{name}.onnx"
