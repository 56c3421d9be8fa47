"""How many layers have to stay in float for an accuracy, by qdqtool's search and by other tools' sensitivity of layers.

    python benchmarks/layer_ranking.py --folder work --networks zoo/networks --aimet PYTHON --modelopt PYTHON

qdqtool quantizes with a goal 5 dB above its default on held-back samples. The test accuracy of that model is what
others have to reach: nodes stay in float in the order of their sensitivity, in qdqtool's own quantization, as few as
reach it on the same test data. So nothing but the order differs. PYTHON has AIMET (``aimet-onnx``), or Model Optimizer
(``nvidia-modelopt[torch]``) with the packages of the zoo; the latter ranks layers of PyTorch modules only, so it takes
the networks of ``--networks``. The order of ``qdqtool sensitivity`` is judged like theirs. Seconds are processor time:
of the whole search, and of the scores alone without calibration for every order. Prints a table in Markdown.
"""

import argparse
import glob
import json
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from benchmarks.accuracy_goal import RAISED_DB, SAMPLES, from_zoo, worst
from benchmarks.comparison import subjects
from benchmarks.comparison.quality import Referee
from benchmarks.comparison.subjects import Subject, Workshop
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.errors import GateError
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity import SensitivityOptions, measure_sensitivity
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.quantization.planning.placement.proposal import Selection
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.input_shapes import parse_shapes
from qdqtool.samples.request import FileData

CHILDREN = Path(__file__).parent / "comparison" / "children"
MODELS, NETWORKS = ("yunet_n_dynamic", "face_slim_320", "digits_cnn"), ("resnet18", "mobilenet_v3_small", "unet")
HEAVY = ("Conv", "ConvTranspose", "Gemm", "MatMul")
TITLES = ("model", "test dB to reach", "tool", "nodes in float", "of the cost", "test dB", "seconds", "÷ sensitivity")


@dataclass(frozen=True, slots=True)
class Ranking:
    """Nodes in the order in which they leave the quantized format, and the seconds that it took to find it."""

    nodes: Sequence[str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Effects:
    """The report of ``sensitivity``, and the seconds that the measurement took."""

    report: SensitivityReport
    seconds: float


@dataclass(frozen=True, slots=True)
class Costs:
    """The share of each layer in the cost of all, by the labels and output names of its products."""

    layers: Mapping[str, tuple[str, float]]

    def is_product(self, node: str) -> bool:
        """Whether a layer has such a product."""
        return node in self.layers

    def share(self, nodes: Sequence[str]) -> float:
        """What it costs to have the layers of these nodes in float."""
        return sum(dict(self.layers[node] for node in nodes if node in self.layers).values())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("folder", "networks"):
        parser.add_argument(f"--{name}", type=Path)
    for name in ("aimet", "modelopt", "only"):
        parser.add_argument(f"--{name}", default="")
    asked = parser.parse_args()
    print(f"| {' | '.join(TITLES)} |\n|{'---|' * len(TITLES)}")
    with tempfile.TemporaryDirectory() as scratch:
        workshop = Workshop(asked.folder or Path(scratch), quick=False, samples=SAMPLES)
        found = [subjects.prepare(name, workshop) for name in MODELS if name in subjects.names()]
        found += [from_zoo(asked.networks, name) for name in NETWORKS] if asked.networks else []
        for subject in found:
            if not asked.only or subject.name in asked.only.split(","):
                _compare(subject, asked, Path(scratch))


def _compare(subject: Subject, asked: argparse.Namespace, scratch: Path) -> None:
    referee, model = Referee(subject), scratch / "quantized.onnx"
    start = time.process_time()
    default = _quantized(subject, model)
    between = time.process_time()
    try:
        reached = _quantized(subject, model, goal=AccuracyGoal(min_sqnr_db=worst(default.accuracy) + RAISED_DB)).goal
    except GateError:
        print(
            f"| {subject.name} | no model that the search found reaches the goal |{' |' * (len(TITLES) - 2)}",
            flush=True,
        )
        return
    seconds = (time.process_time() - between) - (between - start)
    assert reached is not None
    effects = _sensitivity(subject)
    wanted, costs = referee.judge(model).worst, _costs(subject, effects.report)
    left = [node for layer in reached.left for node in layer.nodes if costs.is_product(node)]
    rows = {"qdqtool quantize --min-sqnr": (left, wanted, seconds)}
    labels = [each for layer in effects.report.nodes for each in layer.nodes if costs.is_product(each)]
    # A node without a name is "Conv -> output"; --nodes-to-exclude takes the output.
    own = Ranking([label.rpartition(" -> ")[2] for label in labels], effects.seconds)
    for tool, ranking in {"qdqtool sensitivity": own, **_rankings(subject, asked, scratch)}.items():
        rows[tool] = (*_fewest(subject, ranking.nodes, wanted, referee, model), ranking.seconds)
    for tool, (nodes, found, took) in rows.items():
        counted = (
            f"{len(nodes)}",
            f"{costs.share(nodes):.0%}",
            f"{found:.1f}",
            f"{took:.1f}",
            f"{took / effects.seconds:.1f}",
        )
        print(f"| {' | '.join((subject.name, f'{wanted:.1f}', tool, *counted))} |", flush=True)


def _quantized(
    subject: Subject, output: Path, goal: AccuracyGoal | None = None, excluded: Sequence[str] = ()
) -> QuantizeReport:
    shapes = parse_shapes(subject.input_shapes.split(), "--input-shapes") if subject.input_shapes else {}
    recipe = Recipe(input_shapes=shapes, selection=Selection(nodes_to_exclude=tuple(excluded)))
    return quantize_model(subject.path, subject.calibration, output, QuantizeOptions(recipe=recipe, goal=goal))


def _sensitivity(subject: Subject) -> Effects:
    """What ``sensitivity`` finds, and the seconds that it runs layers: from the first result to the last one."""
    shapes = parse_shapes(subject.input_shapes.split(), "--input-shapes") if subject.input_shapes else {}
    times: list[float] = []

    def note(_: int, __: int) -> None:
        times.append(time.process_time())

    options = SensitivityOptions(recipe=Recipe(input_shapes=shapes))
    report = measure_sensitivity(subject.path, FileData(path=subject.calibration), options, tick=note)
    return Effects(report, (times[-1] - times[0]) * len(times) / (len(times) - 1))


def _costs(subject: Subject, report: SensitivityReport) -> Costs:
    """The costs of layers, as ``sensitivity`` counts them."""
    graph = onnx.load(subject.path, load_external_data=False).graph
    outputs = {node.name or f"{node.op_type} -> {node.output[0]}": node.output[0] for node in graph.node}
    products = {node.output[0] for node in graph.node if node.op_type in HEAVY}
    found: dict[str, tuple[str, float]] = {}
    for layer in report.nodes:
        for label in layer.nodes:
            if outputs.get(label) in products:
                found[label] = found[outputs[label]] = (layer.node, layer.cost_share)
    return Costs(found)


def _rankings(subject: Subject, asked: argparse.Namespace, scratch: Path) -> Mapping[str, Ranking]:
    graph, found = onnx.load(subject.path, load_external_data=False).graph, {}
    if asked.aimet:
        known = _run(asked.aimet, "aimet_layers.py", scratch, str(subject.path), str(subject.calibration), "32")
        found["AIMET"] = Ranking(_by_aimet(known["scores"], graph), known["cpu_seconds"])
    if asked.modelopt and subject.name in NETWORKS:
        known = _run(asked.modelopt, "model_optimizer_layers.py", scratch, subject.name, str(subject.calibration))
        found["Model Optimizer"] = Ranking(_by_module(known["scores"], graph), known["cpu_seconds"])
    return found


def _run(python: str, script: str, scratch: Path, *words: str) -> dict[str, object]:
    result = scratch / "scores.json"
    subprocess.run([python, str(CHILDREN / script), *words, str(result)], check=True, capture_output=True)
    known: dict[str, object] = json.loads(result.read_text(encoding="utf-8"))
    return known


def _by_aimet(scores: Mapping[str, float], graph: onnx.GraphProto) -> list[str]:
    """Return products, those first whose node, or the node that makes their input, has the lowest SQNR alone.

    AIMET quantizes what a node makes; TensorRT quantizes what a product reads.
    """
    makers = {output: node.name for node in graph.node for output in node.output}
    lowest = {
        node.output[0]: min(scores.get(name, float("inf")) for name in (node.name, makers.get(node.input[0], "")))
        for node in graph.node
        if node.op_type in HEAVY
    }
    return sorted(lowest, key=lambda name: lowest[name])


def _by_module(scores: Mapping[str, float], graph: onnx.GraphProto) -> list[str]:
    """Return products, those first whose PyTorch module has the highest score."""
    modules = {node.output[0]: _module_of(node.name) for node in graph.node if node.op_type in HEAVY}
    return sorted(modules, key=lambda name: -scores.get(modules[name], 0.0))


def _module_of(name: str) -> str:
    """Return the module whose node the TorchScript exporter names so: ``/layer1/layer1.0/conv1/Conv``."""
    path: list[str] = []
    for part in name.strip("/").split("/")[:-1]:
        inner = path and part.startswith(f"{path[-1]}.")
        path = [*path[:-1], part] if inner else [*path, part]
    return ".".join(path)


def _fewest(subject: Subject, nodes: Sequence[str], wanted: float, referee: Referee, model: Path) -> tuple[int, float]:
    """Return how many of the first nodes have to stay in float for an accuracy on test data, by bisection."""
    low, high, best = 0, len(nodes), float("inf")
    while high - low > 1:
        middle = (low + high) // 2
        _quantized(subject, model, excluded=[glob.escape(node) for node in nodes[:middle]])
        found = referee.judge(model).worst
        low, high, best = (low, middle, found) if found >= wanted else (middle, high, best)
    return nodes[:high], best


if __name__ == "__main__":
    main()
