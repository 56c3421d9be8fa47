"""What is done with one network: from its float file to engines in every mode. A process of its own for each network.

python -m benchmarks.networks.chain FOLDER NAME RESULT.json
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.comparison import contestants, coverage
from benchmarks.networks import commands, outputs
from benchmarks.networks.commands import ADVICE, FailedError, counted, run
from benchmarks.networks.row import Exported, Left, Mode, Row

_FULL = ("--high-precision-dtype", "fp32")
MODES = {
    "int8": _FULL,
    "fp8": ("--quantize-mode", "fp8", *_FULL),
    "int4": ("--quantize-mode", "int4", "--block-size", "32", *_FULL),
    "int8, fp16 rest": ("--high-precision-dtype", "fp16"),
}
NOTHING = "nothing is left to quantize"
"""What ``quantize`` says of a network that has no layer for a mode."""


class Chain:
    """One network.

    Args:
        folder: Where its files are.
        name: Its name.
        scratch: Where results go.
    """

    def __init__(self, folder: Path, name: str, scratch: Path) -> None:
        self.name, self._scratch = name, scratch
        self._calib, self._test = (folder / f"{name}.{part}.npz" for part in ("calib", "test"))
        self._files = {path.name.split(".")[1]: path for path in sorted(folder.glob(f"{name}.*.onnx"), reverse=True)}
        self._failed = {path.name.split(".")[1]: path.read_text() for path in folder.glob(f"{name}.*.failed")}

    def run(self, modes: Mapping[str, Sequence[str]] = MODES, *, peer: bool = True) -> Row:
        """Do everything with the first file, and quantize the others.

        Args:
            modes: The options of each mode by its name; int8 among them.
            peer: Whether ONNX Runtime quantizes the same nodes.
        """
        row = Row(self.name, failed_exports=self._failed)
        for exporter, path in self._files.items():
            if row.exporter:
                row.others[exporter] = self._other(path)
                continue
            row.exporter, row.nodes = exporter, len(coverage.names(path))
            row.float_refusal = self._build(path)[1]
            reference = outputs.of(path, self._test)
            for mode, options in modes.items():
                row.modes[mode] = self._mode(path, mode, options, reference)
            row.ort = self._ort(path, reference) if peer else Exported(failed="it was not asked")
            row.quantized = len(coverage.quantized(self._made("int8"))) if self._made("int8").exists() else 0
        return row

    def _mode(self, path: Path, mode: str, options: Sequence[str], reference: outputs.Outputs) -> Mode:
        made, quantized = Mode(), self._made(mode)
        try:
            report = self._quantize(path, quantized, options)
            made.pairs, made.weights = (_count(report, kind) for kind in ("activation", "weight"))
            made.equalized = _sites(report, "equalize")
            made.left, made.unexplained = _left(quantized, report)
            self._validate(quantized, made)
            self._check(path, quantized, made)
            made.sqnr_db = outputs.worst(reference, outputs.of(quantized, self._test))
            self._build_quantized(quantized, made)
            if mode == "int8":
                made.stripped_db = self._strip(quantized, reference)
        except FailedError as error:
            made.failed = "" if NOTHING in str(error) else str(error)
            made.nothing = str(error) if NOTHING in str(error) else ""
        return made

    def _made(self, mode: str) -> Path:
        return self._scratch / f"{mode.replace(', ', '_').replace(' ', '_')}.onnx"

    def _other(self, path: Path) -> Exported:
        quantized = self._scratch / "other.onnx"
        try:
            report = self._quantize(path, quantized, ())
            sqnr = outputs.worst(outputs.of(path, self._test), outputs.of(quantized, self._test))
        except FailedError as error:
            return Exported(failed=str(error))
        return Exported(_count(report, "activation"), _count(report, "weight"), _sites(report, "equalize"), sqnr)

    def _quantize(self, path: Path, output: Path, options: Sequence[str]) -> Any:
        words = ("quantize", path, "-o", output, "--calib-data", self._calib, *options)
        return run(*words, allowed=(0, 1))[1]

    def _validate(self, path: Path, made: Mode) -> None:
        found = commands.findings(path)
        made.findings = commands.faults(found)
        made.advice = counted((each["op_type"], each["message"]) for each in found if each["effect"] == ADVICE)

    def _check(self, path: Path, quantized: Path, made: Mode) -> None:
        _, report = run("check", quantized, "--baseline", path, "--data", self._test, allowed=(0, 1))
        made.check = "; ".join(report["failures"])

    def _build_quantized(self, path: Path, made: Mode) -> None:
        report, made.refusal = self._build(path)
        if report is not None:
            made.planned, made.achieved, made.fallbacks = commands.kernels(report)

    def _build(self, path: Path) -> tuple[Any, str]:
        """Return the report of a build, or why there is no engine."""
        return commands.build(path, self._scratch / "engine", self._test)

    def _strip(self, quantized: Path, reference: outputs.Outputs) -> float:
        """Return the SQNR of the stripped model, in which only the weights are rounded."""
        stripped = self._scratch / "stripped.onnx"
        run("strip", quantized, "-o", stripped)
        return outputs.worst(reference, outputs.of(stripped, self._test))

    def _ort(self, path: Path, reference: outputs.Outputs) -> Exported:
        """ONNX Runtime's static quantization of the nodes that our int8 mode quantizes."""
        quantized, ours = self._scratch / "ort.onnx", self._made("int8")
        if not ours.exists():
            return Exported(failed="there is no int8 model to follow")
        known = coverage.names(path)
        chosen = sorted(known[output] for output in coverage.quantized(ours) & known.keys())
        if not chosen:
            return Exported(failed="no node is the same in the float model")
        names = self._scratch / "nodes.json"
        names.write_text(json.dumps(chosen), encoding="utf-8")
        failure = contestants.quantize_with_ort(path, self._calib, quantized, names)
        if failure:
            return Exported(failed=failure)
        try:
            found = outputs.of(quantized, self._test)
            error = outputs.difference_error(reference, found, outputs.of(ours, self._test))
            done = len(coverage.quantized(quantized) & coverage.quantized(ours))
            return Exported(sqnr_db=outputs.worst(reference, found), nodes=done, error_db=error)
        except Exception as error:  # noqa: BLE001 - what it writes may not even load
            return Exported(failed=f"{type(error).__name__}: {error}"[:200])


def _count(report: Any, kind: str) -> int:
    return sum(each["kind"] == kind for each in report["quantized"])


def _sites(report: Any, step: str) -> int:
    return sum(len(each["sites"]) for each in report["preparation"] if each["step"].startswith(step))


def _left(quantized: Path, report: Any) -> tuple[list[Left], int]:
    """Return why nodes with heavy arithmetic stay float, and how many there are of which nothing is said."""
    reasons = {each["node"]: (each["op_type"], each["reason"]) for each in report["skipped"]}
    floats = coverage.left_in_float(quantized)
    named = [reasons[label] for label in floats if label in reasons]
    return counted(named), len(floats) - len(named)


def main(words: Sequence[str]) -> None:
    """Run one network and write its row."""
    with tempfile.TemporaryDirectory() as scratch:
        row = Chain(Path(words[0]), words[1], Path(scratch)).run()
    Path(words[2]).write_text(row.to_json(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
