"""How few nodes `reduce` and Polygraphy's `debug reduce` leave of failing models, and in how many runs.

    python benchmarks/reduce.py
    python benchmarks/reduce.py --polygraphy /path/to/bin/polygraphy --json results.json

Twenty failures are planted into random networks, five of them crashes. Both tools get the same model and the same
command, which counts its runs. Without --polygraphy only `reduce` runs.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, SIDE = 8, 16
SCRIPT = Path(__file__)


@dataclass(frozen=True)
class Case:
    """A failure that is planted into a network.

    Attributes:
        title: What fails.
        network: Makes the network.
        needs: Operators that must all be there; `connected` and `adjacent` ask for a path between them.
        how: How the command fails: a message, a signal, or that it hangs.
        least: Nodes of the smallest model that fails.
    """

    title: str
    network: Callable[["Builder"], None]
    needs: dict[str, Any]
    how: str
    least: int


class Builder:
    """Makes a network of float images, node by node, with seeded weights."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self.outputs: list[str] = []
        self.count = 0

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        self.count += 1
        name = f"t{self.count}"
        self.nodes.append(helper.make_node(op_type, [*inputs], [name], name=f"n{self.count}", **attributes))
        return name

    def weight(self, *shape: int) -> str:
        self.count += 1
        array = self.rng.normal(size=shape).astype(np.float32) / 4
        self.weights.append(numpy_helper.from_array(array, f"w{self.count}"))
        return self.weights[-1].name

    def conv(self, x: str) -> str:
        return self.add("Conv", x, self.weight(CHANNELS, CHANNELS, 3, 3), pads=[1, 1, 1, 1])

    def plain(self, x: str, count: int) -> str:
        """A chain of layers that keep the shape."""
        for _ in range(count):
            kind = self.rng.integers(4)
            if kind == 0:
                x = self.conv(x)
            elif kind == 1:
                x = self.add("Relu", x)
            elif kind == 2:
                x = self.add("Mul", x, self.weight(CHANNELS, 1, 1))
            else:
                x = self.add("Sigmoid", x)
        return x

    def blocks(self, x: str, count: int) -> str:
        """Residual blocks of four nodes each."""
        for _ in range(count):
            inner = self.conv(self.add("Relu", self.conv(x)))
            x = self.add("Add", inner, x)
        return x

    def model(self) -> onnx.ModelProto:
        shape = (1, CHANNELS, SIDE, SIDE)
        values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", *self.outputs)}
        outputs = [values[name] for name in self.outputs]
        graph = helper.make_graph(self.nodes, "network", [values["x"]], outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(before: int, after: int, *planted: str) -> Callable[[Builder], None]:
    """Layers, then the planted operators one behind the other, then layers."""

    def make(net: Builder) -> None:
        x = net.plain("x", before)
        for op_type in planted:
            x = net.add(op_type, x)
        net.outputs.append(net.plain(x, after))

    return make


def apart(gaps: tuple[int, ...], *planted: str) -> Callable[[Builder], None]:
    """Planted operators with layers in front of each and behind the last."""

    def make(net: Builder) -> None:
        x = net.plain("x", gaps[0])
        for op_type, gap in zip(planted, gaps[1:], strict=True):
            x = net.plain(net.add(op_type, x), gap)
        net.outputs.append(x)

    return make


def residual(before: int, after: int, *planted: str) -> Callable[[Builder], None]:
    """Residual blocks with planted operators between them."""

    def make(net: Builder) -> None:
        x = net.blocks("x", before)
        for op_type in planted:
            x = net.add(op_type, x)
        net.outputs.append(net.blocks(x, after))

    return make


def branches(lengths: tuple[int, ...], marked: dict[int, str]) -> Callable[[Builder], None]:
    """Parallel branches that are added up; some begin with a planted operator."""

    def make(net: Builder) -> None:
        stem = net.plain("x", 6)
        ends = []
        for index, length in enumerate(lengths):
            start = net.add(marked[index], stem) if index in marked else stem
            ends.append(net.plain(start, length))
        total = ends[0]
        for end in ends[1:]:
            total = net.add("Add", total, end)
        net.outputs.append(net.plain(total, 6))

    return make


def heads(lengths: tuple[int, ...], head: int, op_type: str) -> Callable[[Builder], None]:
    """A stem with several outputs; one head holds the planted operator."""

    def make(net: Builder) -> None:
        stem = net.plain("x", 20)
        for index, length in enumerate(lengths):
            x = net.plain(stem, length // 2)
            if index == head:
                x = net.add(op_type, x)
            net.outputs.append(net.plain(x, length - length // 2))

    return make


def two_sided(before: int, after: int) -> Callable[[Builder], None]:
    """An Add whose two inputs are made by planted operators."""

    def make(net: Builder) -> None:
        x = net.plain("x", before)
        total = net.add("Add", net.add("Elu", x), net.add("Softsign", x))
        net.outputs.append(net.plain(total, after))

    return make


CASES = (
    Case("one node, message names it", chain(40, 40, "Elu"), {"all": ["Elu"]}, "named", 1),
    Case("one node, message without names", chain(40, 40, "Elu"), {"all": ["Elu"]}, "message", 1),
    Case("the first node", chain(0, 70, "Elu"), {"all": ["Elu"]}, "message", 1),
    Case("the last node", chain(70, 0, "Elu"), {"all": ["Elu"]}, "message", 1),
    Case("one node in 200", chain(130, 70, "Elu"), {"all": ["Elu"]}, "message", 1),
    Case("one node between residual blocks", residual(12, 12, "Elu"), {"all": ["Elu"]}, "message", 1),
    Case("one node in one of four branches", branches((8, 8, 8, 8), {1: "Elu"}), {"all": ["Elu"]}, "message", 1),
    Case("one node in one of five heads", heads((10, 10, 10, 10, 10), 2, "Elu"), {"all": ["Elu"]}, "message", 1),
    Case(
        "two nodes, one behind the other",
        chain(30, 30, "Elu", "Softsign"),
        {"adjacent": ["Elu", "Softsign"]},
        "message",
        2,
    ),
    Case("two nodes far apart", apart((10, 40, 10), "Elu", "Softsign"), {"all": ["Elu", "Softsign"]}, "message", 2),
    Case(
        "two nodes that a path joins",
        apart((20, 6, 30), "Elu", "Softsign"),
        {"path": ["Elu", "Softsign"]},
        "message",
        2,
    ),
    Case(
        "two nodes in two branches",
        branches((9, 9, 9), {0: "Elu", 2: "Softsign"}),
        {"all": ["Elu", "Softsign"]},
        "message",
        2,
    ),
    Case(
        "an Add of two planted nodes",
        two_sided(25, 25),
        {"adjacent": ["Elu", "Add"], "and": ["Softsign", "Add"]},
        "message",
        3,
    ),
    Case(
        "three nodes far apart",
        apart((9, 20, 20, 9), "Elu", "Softsign", "Erf"),
        {"all": ["Elu", "Softsign", "Erf"]},
        "message",
        3,
    ),
    Case("a time-out", chain(20, 20, "Elu"), {"all": ["Elu"]}, "hang", 1),
    Case("SIGSEGV, one node", chain(50, 30, "Elu"), {"all": ["Elu"]}, "SIGSEGV", 1),
    Case("SIGABRT, between residual blocks", residual(9, 14, "Elu"), {"all": ["Elu"]}, "SIGABRT", 1),
    Case("SIGSEGV, two nodes in a row", chain(35, 35, "Elu", "Erf"), {"adjacent": ["Elu", "Erf"]}, "SIGSEGV", 2),
    Case("SIGFPE, in one of three branches", branches((12, 12, 12), {2: "Erf"}), {"all": ["Erf"]}, "SIGFPE", 1),
    Case("SIGKILL, two nodes far apart", apart((15, 25, 15), "Elu", "Erf"), {"all": ["Elu", "Erf"]}, "SIGKILL", 2),
)


def probe(model: Path, case: int, log: Path) -> None:
    """The command that fails: count the run, and fail if the model has what the case needs."""
    with log.open("a") as file:
        file.write("run\n")
    graph = onnx.load(str(model)).graph
    chosen = CASES[case]
    if not all(_holds(kind, given, graph) for kind, given in chosen.needs.items()):
        return
    if chosen.how.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[chosen.how])
    if chosen.how == "hang":
        signal.pause()
    node = next(each for each in graph.node if each.op_type in _named(chosen))
    sys.exit(f"error: cannot compile node {node.name}" if chosen.how == "named" else "error: an internal check failed")


def _named(case: Case) -> list[str]:
    return next(iter(case.needs.values()))


def _holds(kind: str, given: list[str], graph: onnx.GraphProto) -> bool:
    if kind == "all":
        return {*given} <= {node.op_type for node in graph.node}
    first = {name for node in graph.node if node.op_type == given[0] for name in node.output}
    if kind == "path":
        for node in graph.node:
            if first.intersection(node.input):
                first.update(node.output)
    return any(node.op_type == given[1] and first.intersection(node.input) for node in graph.node)


@dataclass(frozen=True)
class Result:
    """What one tool made of one case."""

    nodes: int
    runs: int
    history: tuple[tuple[int, int], ...] = ()

    def runs_until(self, nodes: int) -> int | None:
        """The runs until so few nodes were left; None where it was never so few."""
        return next((runs for runs, left in self.history if left <= nodes), None)


def command(case: int, log: Path, model: str) -> list[str]:
    return [sys.executable, str(SCRIPT), "--probe", str(case), str(log), model]


def by_reduce(case: int, model: Path, folder: Path) -> Result:
    import qdqtool as qdq

    log, small = folder / "reduce.log", folder / "reduced.onnx"
    timeout = 2 if CASES[case].how == "hang" else 60
    report = qdq.reduce_model(model, small, shlex.join(command(case, log, "{}")), timeout=timeout)
    runs = len(log.read_text().splitlines())
    assert runs == report.runs, (runs, report.runs)
    assert_fails(case, small, folder)
    return Result(len(onnx.load(str(small)).graph.node), runs, report.history)


def by_polygraphy(tool: str, case: int, model: Path, folder: Path) -> Result:
    log, small = folder / "polygraphy.log", folder / "polygraphy.onnx"
    check = command(case, log, "polygraphy_debug.onnx")
    if CASES[case].how == "hang":
        check = ["timeout", "2", *check]
    words = [tool, "debug", "reduce", str(model), "-o", str(small), "--check", *check]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    runs = len(log.read_text().splitlines()) if log.exists() else 0
    if not small.exists():
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
        return Result(-1, runs)
    return Result(len(onnx.load(str(small)).graph.node), runs)


def assert_fails(case: int, model: Path, folder: Path) -> None:
    """The reduced model has what the case needs; the number of its nodes alone says nothing."""
    graph = onnx.load(str(model)).graph
    assert all(_holds(kind, given, graph) for kind, given in CASES[case].needs.items()), (CASES[case].title, folder)


def results(tool: str | None, only: str) -> Iterator[tuple[Case, int, Result, Result | None]]:
    for index, case in enumerate(CASES):
        if only not in case.title:
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            net = Builder(index)
            case.network(net)
            model = folder / "model.onnx"
            onnx.save(net.model(), str(model))
            ours = by_reduce(index, model, folder)
            yield case, len(net.nodes), ours, by_polygraphy(tool, index, model, folder) if tool else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--polygraphy", help="the program polygraphy, of an environment that has it")
    parser.add_argument("--only", default="", help="cases whose title has this")
    parser.add_argument("--json", type=Path, help="write all numbers")
    parser.add_argument("--probe", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.probe:
        case, log, model = args.probe
        probe(Path(model), int(case), Path(log))
        return
    print("| failure | nodes | least | reduce: nodes | runs | Polygraphy: nodes | runs | reduce, runs until as few |")
    print("|---|---|---|---|---|---|---|---|")
    kept = []
    for case, nodes, ours, theirs in results(args.polygraphy, args.only):
        until = ours.runs_until(theirs.nodes) if theirs else None
        other = f"{theirs.nodes} | {theirs.runs} | {until if until is not None else '-'}" if theirs else "- | - | -"
        print(f"| {case.title} | {nodes} | {case.least} | {ours.nodes} | {ours.runs} | {other} |", flush=True)
        kept.append({"title": case.title, "ours": ours.nodes, "runs": ours.runs, "until": until}
                    | ({"polygraphy": theirs.nodes, "polygraphy_runs": theirs.runs} if theirs else {}))  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps(kept, indent=2))


if __name__ == "__main__":
    main()
