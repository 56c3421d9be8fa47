"""What is done with one model of another tool: the shortest way to an engine. A process of its own for each model.

python -m benchmarks.foreign_models.chain FOLDER NAME RESULT.json
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.comparison import coverage
from benchmarks.foreign_models import baseline
from benchmarks.foreign_models.row import Route, Row
from benchmarks.networks import commands, outputs
from benchmarks.networks.commands import FailedError

NORMALIZE, FIX, UNSAFE = "normalize", "fix", "unsafe fix"
WAYS: tuple[tuple[str, ...], ...] = ((), (FIX,), (NORMALIZE,), (NORMALIZE, FIX), (UNSAFE,), (NORMALIZE, UNSAFE))
"""The commands in front of ``build``, the shortest way first, those that change numbers last."""

AS_IT_IS = "as it is"
UNCHANGED = "it changes nothing"
"""What is noted of a way that ends in a model which another way has tried."""

ONNX_RUNTIME, OWN = "ONNX Runtime", "check"


class Chain:
    """One model.

    Args:
        folder: Where its files are.
        name: The tool and its mode, with a dot between them.
        scratch: Where results go.
    """

    def __init__(self, folder: Path, name: str, scratch: Path) -> None:
        self._name, self._scratch = name, scratch
        self._path, self._float = folder / f"{name}.onnx", folder / f"{name}.float.onnx"
        self._float_test = folder / f"{name}.test.npz"
        self._calib, self._test = (self._fitted(folder / f"{name}.{part}.npz") for part in ("calib", "test"))
        self._steps: dict[tuple[str, ...], Path] = {(): self._path}

    def run(self) -> Row:
        """Do everything."""
        row = Row(self._name, layers=len(coverage.names(self._float)))
        row.before_db, row.before_by = self._sqnr(self._float, self._path)
        row.findings = self._findings(self._path)
        best: tuple[tuple[str, ...], Any] | None = None
        for way in WAYS:
            if UNSAFE in way and row.achieved:
                break
            attempt, report = self._attempt(way)
            row.attempts.append(attempt)
            if report is not None and (best is None or attempt.achieved > row.achieved):
                best = way, report
                row.planned, row.achieved, row.fallbacks = commands.kernels(report)
        if best is not None:
            row.way = named(best[0])
            self._judge(self._steps[best[0]], row)
        return row

    def _judge(self, final: Path, row: Row) -> None:
        row.left = self._findings(final)
        row.after_db = self._sqnr(self._float, final)[0]
        row.change_db = self._sqnr(self._path, final)[0]

    def _findings(self, path: Path) -> list[str]:
        try:
            return commands.faults(commands.findings(path))
        except FailedError as error:
            return [str(error)]

    def _attempt(self, way: tuple[str, ...]) -> tuple[Route, Any]:
        """Return how one way ended, and the report of the build if there is an engine."""
        attempt = Route(named(way))
        try:
            path = self._after(way)
        except FailedError as error:
            attempt.failed = str(error)
            return attempt, None
        if path is None:
            attempt.failed = UNCHANGED
            return attempt, None
        report, attempt.failed = commands.build(path, self._scratch / "engine", self._test)
        if report is None:
            return attempt, None
        attempt.planned, attempt.achieved, _ = commands.kernels(report)
        return attempt, report

    def _after(self, way: tuple[str, ...]) -> Path | None:
        """Return the model after the commands of a way, or nothing where the last of them changes nothing."""
        if way in self._steps:
            return self._steps[way]
        *before, last = way
        source = self._after(tuple(before))
        if source is None:
            return None
        made = self._scratch / f"{'_'.join(way).replace(' ', '_')}.onnx"
        words: tuple[object, ...] = ("normalize", source, "-o", made, "--data", self._calib)
        if last != NORMALIZE:
            words = ("validate", source, "--target", "tensorrt-rtx", "--fix", *words[2:])
        report = commands.run(*words, *(["--unsafe-fixes"] if last == UNSAFE else []), allowed=(0, 1))[1]
        repaired = report["repaired"] if last == NORMALIZE else report["models"][0]["repaired"]
        if not repaired or not repaired["changes"]:
            return None
        self._steps[way] = made
        return made

    def _sqnr(self, expected: Path, found: Path) -> tuple[float | None, str]:
        """Return how far a model is from another, and what ran it: ``check`` where ONNX Runtime does not."""
        try:
            return outputs.worst(self._outputs(expected), self._outputs(found)), ONNX_RUNTIME
        except Exception:  # noqa: BLE001 - other tools' operators; ONNX Runtime raises several types
            return self._checked(expected, found)

    def _checked(self, expected: Path, found: Path) -> tuple[float | None, str]:
        if expected == self._float:
            expected = self._scratch / "baseline.onnx"
            onnx.save(baseline.like(onnx.load(self._float), onnx.load(found)), expected)
        words = ("check", found, "--baseline", expected, "--data", self._test)
        try:
            report = commands.run(*words, allowed=(0, 1))[1]
        except FailedError as error:
            return None, str(error)
        known = [float("inf") if each["exact"] else each["sqnr_db"] for each in report["outputs"]]
        return min((each for each in known if each is not None), default=None), OWN

    def _outputs(self, path: Path) -> outputs.Outputs:
        return outputs.of(path, self._float_test if path == self._float else self._test)

    def _fitted(self, data: Path) -> Path:
        """Return a file with the same arrays under the names and in the types that the tool gave the inputs."""
        inputs = baseline.inputs_of(onnx.load(self._path, load_external_data=False))
        with np.load(data) as stored:
            arrays = dict(stored)
        fitted = {}
        for each, array in zip(inputs, arrays.values(), strict=True):
            dtype = onnx.helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type)
            fitted[each.name] = array.astype(dtype)
        path = self._scratch / data.name
        np.savez(path, **fitted)
        return path


def named(way: Sequence[str]) -> str:
    """Return the name of a way."""
    return ", ".join(way) or AS_IT_IS


def main(words: Sequence[str]) -> None:
    """Run one model and write its row."""
    with tempfile.TemporaryDirectory() as scratch:
        row = Chain(Path(words[0]), words[1], Path(scratch)).run()
    Path(words[2]).write_text(row.to_json(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
