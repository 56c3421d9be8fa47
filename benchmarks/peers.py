"""qdqtool next to ONNX Runtime and Model Optimizer: the same models and data, ratios to plain inference, and the bars.

    python benchmarks/peers.py --quick
    python benchmarks/peers.py --modelopt /path/to/python --markdown peers.md --json peers.json
    python benchmarks/peers.py --models resnet50,char_lm --tools qdqtool,ort --modes "int8 max,int8 default"
    python benchmarks/peers.py --memory

Each contestant runs in a fresh process. Ratios of wall-clock time, processor time and peak memory are what quantizing
takes, from start to exit, over what a plain ONNX Runtime session takes that runs the same samples in the same batches,
with default options, from start to exit too. On the small models starting up is most of both; the heavy ones (resnet50,
bert_base) are what time is judged on. ``SQNR dB`` is that of the worst output on samples that calibration has not seen,
against the float model, both in ONNX Runtime without graph optimizations. ``nodes`` are those with heavy arithmetic
(Conv, ConvTranspose, Gemm, MatMul, LSTM, GRU) whose factors all are dequantized, ``+ N weights`` those where only one
is. ``pairs`` are QuantizeLinear nodes that round at run time. ``as planned``: nodes that TensorRT for RTX runs in the
planned type.

Data of the generated and of the real models are random, with a seed; only the sample models are judged on a task.
Nothing needs a network.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.comparison import bars, contestants, memory, pages, subjects, tables
from benchmarks.comparison.arena import Arena, Effort
from benchmarks.comparison.contestants import Contestant
from benchmarks.comparison.measured import Result

QUICK_MODELS = ("digits_cnn", "char_lm", "digits_depthwise", "digits_depthwise_uneven", "resnet50")
_FOLDERS = re.compile(r"(?<![\w.])(?:/[^\s/:'\"]+)+/")
"""Of a path in a message: where somebody keeps files says nothing here."""
TOOLS = ("qdqtool", "ort", "modelopt")


def main() -> None:
    """Print the tables."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.folder or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        (_memory if arguments.memory else _compare)(arguments, folder)


def _compare(arguments: argparse.Namespace, folder: Path) -> None:
    workshop = subjects.Workshop(folder, quick=arguments.quick)
    effort = Effort(repeats=1 if arguments.quick else arguments.repeat, engines=not arguments.no_engines)
    entered, results = _contestants(arguments), list[Result]()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", file=sys.stderr)
    for name in _models(arguments):
        subject = subjects.prepare(name, workshop)
        results += Arena(subject, effort, folder).compare([one for one in entered if contestants.entered(one, subject)])
        _save(arguments, results)
    print(_page(tables.text, results, bars.judge(results, arguments.clock)))


def _save(arguments: argparse.Namespace, results: Sequence[Result]) -> None:
    """Write the files, after each model again: what is interrupted leaves what it has."""
    judged = bars.judge(results, arguments.clock)
    if arguments.markdown:
        pages.put(Path(arguments.markdown), "peers", _page(tables.markdown, results, judged))
    if arguments.json:
        document = tables.document(results, judged)
        Path(arguments.json).write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _page(
    render: Callable[[Sequence[str], Sequence[Sequence[str]]], str],
    results: Sequence[Result],
    judged: Sequence[bars.Bar],
) -> str:
    notes = [
        f"{result.subject.name}, {result.label}: {_FOLDERS.sub('', note)}"
        for result in results
        for note in _notes(result)
    ]
    parts = [
        ", ".join(f"{name} {version}" for name, version in tables.versions().items())
        + f"; {os.cpu_count()} processors, load average {os.getloadavg()[1]:.1f}",
        render(tables.COLUMNS, tables.rows(results)),
        render(tables.BAR_COLUMNS, tables.bar_rows(judged)),
        "\n".join(f"- {note}" for note in notes),
    ]
    return "\n\n".join(part for part in parts if part)


def _notes(result: Result) -> list[str]:
    if result.failed:
        return [f"SKIPPED: {result.failed}"]
    engine = [f"not built: {result.engine.reason}"] if result.engine and not result.engine.built else []
    outputs = result.quality.sqnr if result.quality and result.contestant else {}
    return [*result.notes, *engine] if len(outputs) < 2 else [*result.notes, *engine, _outputs(outputs)]


def _outputs(sqnr: dict[str, float]) -> str:
    return "SQNR of " + ", ".join(f"{name} {value:.1f}" for name, value in sqnr.items()) + " dB"


def _memory(arguments: argparse.Namespace, folder: Path) -> None:
    rows = [growth.row for growth in memory.measure(subjects.Workshop(folder, quick=arguments.quick))]
    print(tables.text(memory.COLUMNS, rows))
    if arguments.markdown:
        pages.put(Path(arguments.markdown), "memory", tables.markdown(memory.COLUMNS, rows))


def _models(arguments: argparse.Namespace) -> list[str]:
    known = subjects.names()
    if not arguments.models:
        return [name for name in known if name in QUICK_MODELS] if arguments.quick else known
    asked = str(arguments.models).split(",")
    _refuse_unknown("model", asked, known)
    return asked


def _contestants(arguments: argparse.Namespace) -> list[Contestant]:
    tools = arguments.tools.split(",")
    _refuse_unknown("tool", tools, TOOLS)
    found = [
        *(contestants.ours() if "qdqtool" in tools else []),
        *(contestants.onnx_runtime() if "ort" in tools else []),
        *(contestants.model_optimizer(arguments.modelopt) if "modelopt" in tools and arguments.modelopt else []),
    ]
    found = [one for one in found if not (arguments.quick and contestants.is_slow(one))]
    modes = list(dict.fromkeys(one.group for one in found))
    asked = arguments.modes.split(",") if arguments.modes else modes
    _refuse_unknown("mode", asked, modes)
    methods = arguments.methods.split(",") if arguments.methods else list({one.method for one in found})
    _refuse_unknown("method", methods, sorted({one.method for one in found}))
    return [one for one in found if one.group in asked and one.method in methods]


def _refuse_unknown(what: str, asked: Sequence[str], known: Sequence[str]) -> None:
    unknown = [word for word in asked if word not in known]
    if unknown:
        raise SystemExit(f"{what} '{unknown[0]}' is unknown; there are: {', '.join(known)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few models and samples, no slow peers: 5 minutes at most")
    parser.add_argument("--models", help="names, with commas; default all")
    parser.add_argument("--tools", default=",".join(TOOLS), help="of qdqtool, ort, modelopt")
    parser.add_argument("--modes", help="with commas, as in the column; default all")
    parser.add_argument("--methods", help="with commas, as in the column; default all")
    parser.add_argument("--modelopt", metavar="PYTHON", help="interpreter that has nvidia-modelopt[onnx]")
    parser.add_argument("--repeat", type=int, default=2, help="runs on the heavy models; the smallest figures count")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="what the time bars are judged on")
    parser.add_argument("--no-engines", action="store_true", help="do not ask TensorRT for RTX")
    parser.add_argument("--memory", action="store_true", help="peak memory of 512 samples against 32, nothing else")
    parser.add_argument("--folder", help="where generated and quantized models are kept; default: nowhere")
    parser.add_argument("--json", help="file to write")
    parser.add_argument("--markdown", help="file to write, or with comments between which the table belongs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
