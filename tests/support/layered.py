"""Small networks for the measurement of layers, and what `quantize` plans for them."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from qdqtool.accuracy.layers.method_trial import try_methods
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.options import ExternalData
from qdqtool.models.plan import QuantPlan
from qdqtool.quantization.insertion.apply_plan import apply_plan
from qdqtool.quantization.planning.high_precision import ready_for
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.planner import index_to_plan
from qdqtool.quantization.planning.planners import PlanData, planner_for
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.bias_correction import correct_biases
from qdqtool.quantization.preparation.calibration import runs_for
from qdqtool.quantization.preparation.plan_inputs import PlanSources, gather_inputs
from qdqtool.quantization.preparation.prepare import Prepared
from qdqtool.samples.feeds import Feeds
from support.small import make_model

AS_IT_IS = Preparation(equalize=False, smoothquant=None, bias_correction=False, awq=False)
MAX = Recipe(method="max", preparation=AS_IT_IS)
"""int8 without preparation: the plan then is about the model as it is."""


def chain(depth: int = 5, width: int = 16, uneven: float = 30.0) -> onnx.ModelProto:
    """Products in a row, ``m0`` to ``m<depth - 1>``, Relus between them; every second weight has outliers."""
    random = np.random.default_rng(depth)
    nodes, weights, last = [], {}, "x"
    for number in range(depth):
        weight = random.normal(0, width**-0.5, (width, width)).astype(np.float32)
        if number % 2:
            weight[number, :] *= uneven / (number + 1)
        weights[f"w{number}"] = weight
        output = "y" if number == depth - 1 else f"a{number}"
        nodes.append(helper.make_node("MatMul", [last, f"w{number}"], [output], name=f"m{number}"))
        last = output
        if number < depth - 1:
            nodes.append(helper.make_node("Relu", [output], [f"r{number}"], name=f"relu{number}"))
            last = f"r{number}"
    return make_model(nodes, {"x": (4, width)}, {"y": (4, width)}, weights)


def dividing() -> tuple[onnx.ModelProto, list[dict[str, np.ndarray]]]:
    """Three products; a quotient is infinite wherever the first or the second reads quantized rows, which become 0."""
    random = np.random.default_rng(0)
    weights = {name: random.normal(size=(16, 16)).astype(np.float32) for name in "wvu"}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Abs", ["a"], ["b"], name="abs"),
        helper.make_node("MatMul", ["b", "v"], ["c"], name="second"),
        helper.make_node("Div", ["x", "c"], ["d"], name="quotient"),
        helper.make_node("Tanh", ["x"], ["t"], name="tanh"),
        helper.make_node("MatMul", ["t", "u"], ["y"], name="third"),
    ]
    samples = rows()
    for sample in samples:
        sample["x"][0] *= np.float32(1e-6)
    return make_model(nodes, {"x": (4, 16)}, {"d": (4, 16), "y": (4, 16)}, weights), samples


def rows(
    shape: Sequence[int] = (4, 16), count: int = 12, seed: int = 5, tail: float = 0.3
) -> list[dict[str, np.ndarray]]:
    """Samples for an input ``x``: normal, with more large values the larger ``tail`` is."""
    random = np.random.default_rng(seed)
    found = random.normal(size=(count, *shape)) * np.exp(random.normal(scale=tail, size=(count, *shape)))
    return [{"x": each} for each in found.astype(np.float32)]


def save(folder: Path, model: onnx.ModelProto, samples: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Write ``m.onnx`` and ``d.npz`` into a folder; the first axis of an input is that of the samples where it is 1."""
    onnx.save(model, folder / "m.onnx")
    extents = {each.name: each.type.tensor_type.shape.dim[0].dim_value for each in model.graph.input}
    join = {name: np.concatenate if extents[name] == 1 else np.stack for name in samples[0]}
    np.savez(folder / "d.npz", **{name: join[name]([each[name] for each in samples]) for name in samples[0]})


@dataclass(frozen=True, slots=True)
class Planned:
    """A float model that is planned as `quantize` does it."""

    ready: Model
    plan: QuantPlan
    prepared: Prepared
    choosing: Feeds

    @property
    def index(self) -> ModelIndex:
        return ModelIndex.of(self.ready)

    def applied(self, plan: QuantPlan) -> onnx.ModelProto:
        """The model with this plan, its biases corrected."""
        made = apply_plan(self.ready, plan).model
        made = correct_biases(made, ModelIndex.of(self.prepared.model), plan, self.prepared.means).model
        with tempfile.TemporaryDirectory() as folder:
            save_model(made, path := Path(folder, "applied.onnx"), external_data=ExternalData.NEVER)
            return onnx.load(path)


@contextmanager
def planned(folder: Path, recipe: Recipe = MAX) -> Iterator[Planned]:
    """Plan the model ``m.onnx`` with the data ``d.npz`` of a folder."""
    model = Model(onnx.load(folder / "m.onnx"))
    with runs_for(recipe) as runs:
        inputs = gather_inputs(model, PlanSources(folder / "d.npz", trial=try_methods), recipe, runs)
        ready = ready_for(inputs.prepared.model, recipe.high_precision).model
        data = PlanData(ranges=inputs.ranges, feeds=inputs.choosing)
        plan = planner_for(recipe, data).plan(index_to_plan(ready)).plan
        assert inputs.choosing is not None
        yield Planned(ready, plan, inputs.prepared, inputs.choosing)


def outputs(model: onnx.ModelProto | Path, samples: Sequence[Mapping[str, np.ndarray]]) -> list[list[np.ndarray]]:
    """Outputs of each sample in ONNX Runtime without optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return [session.run(None, dict(sample)) for sample in samples]


def sqnr(reference: Sequence[Sequence[np.ndarray]], found: Sequence[Sequence[np.ndarray]]) -> list[float]:
    """The SQNR of each output over all samples, in dB."""
    return [
        _ratio(np.stack([a[at] for a in reference]), np.stack([x[at] for x in found]))
        for at in range(len(reference[0]))
    ]


def _ratio(reference: np.ndarray, found: np.ndarray) -> float:
    a, x = reference.astype(np.float64), found.astype(np.float64)
    noise = np.sum((a - x) ** 2)
    return float(10 * np.log10(np.sum(a**2) / noise)) if noise else float("inf")


def nodes_with_pairs(model: onnx.ModelProto) -> set[str]:
    """Names of nodes of the main graph that read a DequantizeLinear, directly or through nodes that move a weight."""
    behind = {output for node in model.graph.node if node.op_type == "DequantizeLinear" for output in node.output}
    found = set[str]()
    for node in model.graph.node:
        if not behind & set(node.input):
            continue
        if node.op_type in {"Transpose", "Identity"}:
            behind |= set(node.output)
        elif node.op_type not in {"QuantizeLinear", "DequantizeLinear"}:
            found.add(node.name or node.output[0])
    return found
