"""qdqtool next to ONNX Runtime and Model Optimizer: the same models and data, ratios to plain inference, and the bars.

    python benchmarks/peers.py --quick
    python benchmarks/peers.py --modelopt /path/to/python --json results.json --markdown peers.md
    python benchmarks/peers.py --models resnet50,char_lm --tools qdqtool,ort --modes "int8 max,int8 default"
    python benchmarks/peers.py --growth --modelopt /path/to/python
    python benchmarks/peers.py --render --json results.json --markdown peers.md

Each contestant runs in a fresh process. Ratios of wall-clock time, processor time and peak memory are what quantizing
takes, from start to exit, over what a plain ONNX Runtime session takes that runs the same samples in the same batches,
with default options, from start to exit too. On the small models starting up is most of both; the heavy ones (resnet50,
bert_base) are what time is judged on, and ``--growth`` tells what one more sample costs. ``SQNR dB`` is that of the
worst output on samples that calibration has not seen, against the float model, both in ONNX Runtime without graph
optimizations. ``nodes`` are those with heavy arithmetic (Conv, ConvTranspose, Gemm, MatMul, LSTM, GRU) whose factors
all are dequantized, ``+ N weights`` those where only one is. ``pairs`` are QuantizeLinear nodes that round at run time.
``as planned``: nodes that TensorRT for RTX runs in the planned type. ``--modes fp16`` compares conversions to half
precision, in a table of their own; ``--zoo FOLDER`` adds networks that ``zoo.py`` wrote there.

A full run takes long, so ``--json`` grows: what runs again replaces what the file holds of it, figure by figure with
``--measure``, and tables show the whole file. Data of the generated and of the real models are made up, with a seed.
Nothing needs a network.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparison import contestants, costs, growth, pages, report, store, subjects, tables
from benchmarks.comparison.arena import Arena, Effort
from benchmarks.comparison.contestants import Contestant
from benchmarks.comparison.growth import Growth
from benchmarks.comparison.measured import Result
from benchmarks.comparison.subjects import Workshop

QUICK_MODELS = ("digits_cnn", "char_lm", "digits_depthwise", "digits_depthwise_uneven", "resnet50")
TOOLS = ("qdqtool", "ort", "modelopt")


class Record:
    """What is known so far, from the file and from this run."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self.results, self.grown = store.read(Path(arguments.json)) if arguments.json else ([], [])

    def add(self, results: Sequence[Result] = (), grown: Sequence[Growth] = ()) -> None:
        """Take new figures in and write the files: what is interrupted leaves what it has."""
        self.results = store.merged(self.results, results, subjects.names())
        self.grown = store.merged_growth(self.grown, grown)
        if self._arguments.json:
            store.write(Path(self._arguments.json), self.results, self.grown)
        if self._arguments.markdown:
            pages.put(Path(self._arguments.markdown), self._texts(tables.markdown))

    def show(self) -> None:
        """Print all of it."""
        print("\n\n".join(self._texts(tables.text).values()))

    def _texts(self, table: report.Table) -> dict[str, str]:
        return report.parts(table, self.results, self.grown, self._arguments.clock)


def main() -> None:
    """Print the tables."""
    arguments = _arguments()
    record = Record(arguments)
    if arguments.render:
        record.add()
    else:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(arguments.folder or scratch).resolve()
            folder.mkdir(parents=True, exist_ok=True)
            print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", file=sys.stderr)
            (_grow if arguments.growth else _compare)(arguments, Workshop(folder, quick=arguments.quick), record)
    record.show()


def _compare(arguments: argparse.Namespace, workshop: Workshop, record: Record) -> None:
    effort = Effort(
        repeats=1 if arguments.quick else arguments.repeat,
        times=arguments.measure != "quality",
        judges=arguments.measure != "time",
        engines=not arguments.no_engines,
        limit=arguments.limit,
    )
    entered = _contestants(arguments)
    for name in _models(arguments):
        subject = subjects.zoo(arguments.zoo).get(name) or subjects.prepare(name, workshop)
        arena = Arena(subject, effort, workshop.folder)
        record.add(arena.compare([one for one in entered if contestants.entered(one, subject)]))


def _grow(arguments: argparse.Namespace, workshop: Workshop, record: Record) -> None:
    names = arguments.models.split(",") if arguments.models else growth.names()
    _refuse_unknown("model", names, growth.names())
    for name in names:
        for one in growth.measure(name, _contestants(arguments), workshop, arguments.repeat):
            record.add(grown=[one])


def _models(arguments: argparse.Namespace) -> list[str]:
    known = [*subjects.names(), *subjects.zoo(arguments.zoo)]
    if not arguments.models:
        return [name for name in known if name in QUICK_MODELS] if arguments.quick else subjects.names()
    asked = str(arguments.models).split(",")
    _refuse_unknown("model", asked, known)
    return asked


def _contestants(arguments: argparse.Namespace) -> list[Contestant]:
    tools = arguments.tools.split(",")
    _refuse_unknown("tool", tools, TOOLS)
    peers = [
        *(contestants.onnx_runtime() if "ort" in tools else []),
        *(contestants.model_optimizer(arguments.modelopt) if "modelopt" in tools and arguments.modelopt else []),
    ]
    ours = [*contestants.ours(), *contestants.followers(peers)] if "qdqtool" in tools else []
    found = [*(one for one in ours if not one.follows), *peers, *(one for one in ours if one.follows)]
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
    parser.add_argument("--zoo", help="folder of networks that zoo.py wrote; --models names those to run")
    parser.add_argument("--repeat", type=int, default=2, help="runs on the heavy models; the smallest figures count")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="what the time bars are judged on")
    parser.add_argument("--measure", choices=("all", "time", "quality"), default="all", help="what is worth keeping")
    parser.add_argument("--limit", type=float, default=costs.LIMIT, help="seconds a command may take; default 900")
    parser.add_argument("--no-engines", action="store_true", help="do not ask TensorRT for RTX")
    parser.add_argument("--growth", action="store_true", help="cost of many samples against few, nothing else")
    parser.add_argument("--render", action="store_true", help="run nothing, show what --json holds")
    parser.add_argument("--folder", help="where generated and quantized models are kept; default: nowhere")
    parser.add_argument("--json", help="file with results, added to")
    parser.add_argument("--markdown", help="file to write, or with comments between which the tables belong")
    return parser.parse_args()


if __name__ == "__main__":
    main()
