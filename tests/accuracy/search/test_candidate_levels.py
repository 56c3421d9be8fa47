"""Models whose layers have two formats for an accuracy, measured by ONNX Runtime and read node by node."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto
from support.layered import AS_IT_IS, MAX, chain, outputs, rows, save, sqnr
from support.paths import ROOT
from support.small import make_model

from qdqtool.accuracy.layers.masked_runs import MaskedRuns
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.engines.build.options import BuildOptions
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.insert import insert_plan
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity import SensitivityOptions, measure_sensitivity
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.planning.recipe import Recipe

INT4 = Recipe(quantize_mode="int4", fallback="int8", preparation=AS_IT_IS)
FP8 = Recipe(quantize_mode="fp8", fallback="int8", method="max", preparation=AS_IT_IS)
RECIPES = {"int4": INT4, "fp8": FP8}
STORED = {TensorProto.INT4: "int4", TensorProto.INT8: "int8", TensorProto.FLOAT8E4M3FN: "fp8"}
SHAPE = (4, 64)


def quantized(
    folder: Path, recipe: Recipe, goal_db: float | None, name: str = "q.onnx", **more: object
) -> QuantizeReport:
    goal = None if goal_db is None else AccuracyGoal(min_sqnr_db=goal_db, **more)
    chosen = recipe if goal is not None else replace(recipe, fallback=None)
    options = QuantizeOptions(
        recipe=chosen, goal=goal, validation_data=folder / "v.npz", plan_file=folder / f"{name}.plan.json"
    )
    return quantize_model(folder / "m.onnx", folder / "d.npz", folder / name, options)


def save_with_validation(folder: Path, model: onnx.ModelProto, shape: tuple[int, ...] = SHAPE) -> None:
    save(folder, model, rows(shape, 6, seed=77))
    (folder / "d.npz").rename(folder / "v.npz")
    save(folder, model, rows(shape, 12))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five products; a goal some dB above what the mode keeps takes some of them out of its format."""
    save_with_validation(tmp_path, chain(5, width=64, uneven=6.0))
    return tmp_path


def worst(report: QuantizeReport) -> float:
    return min(output.sqnr_db for output in report.accuracy.outputs if output.sqnr_db is not None)


def kept(folder: Path, name: str) -> float:
    samples = rows(SHAPE, 6, seed=77)
    return min(sqnr(outputs(folder / "m.onnx", samples), outputs(folder / name, samples)))


def formats(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Formats of the operands of each product, read from the file; ``float`` for one without a pair."""
    model = onnx.load(path)
    stored = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    made = {output: node for node in model.graph.node for output in node.output}

    def operand(name: str) -> str:
        node = made.get(name)
        if node is None or node.op_type != "DequantizeLinear":
            return "float"
        return STORED[stored[node.input[0] if node.input[0] in stored else made[node.input[0]].input[2]]]

    return {node.name: tuple(map(operand, node.input)) for node in model.graph.node if node.op_type == "MatMul"}


def levels(report: QuantizeReport) -> Mapping[str, str]:
    """The level of each product that left the format of the mode, as the report names it."""
    assert report.goal.fallback is not None
    found = {node: "float" for layer in report.goal.left for node in layer.nodes}
    return found | {node: report.goal.fallback for layer in report.goal.finer for node in layer.nodes}


@pytest.mark.parametrize("more", [3.0, 6.0])
@pytest.mark.parametrize("mode", RECIPES)
def test_the_model_keeps_the_goal_with_the_formats_that_the_report_names(folder: Path, mode: str, more: float):
    recipe = RECIPES[mode]
    low = worst(quantized(folder, recipe, None, "all.onnx"))
    report = quantized(folder, recipe, low + more)
    assert kept(folder, "q.onnx") >= low + more
    assert worst(report) == pytest.approx(kept(folder, "q.onnx"), abs=2e-4)
    named = levels(report)
    assert "int8" in named.values()
    activation = "float" if mode == "int4" else None
    for node, (data, weight) in formats(folder / "q.onnx").items():
        assert weight == named.get(node, mode)
        assert data == (activation or weight)
    skipped = {each.node for each in report.skipped if each.reason.code == "accuracy"}
    assert skipped == {node for node, level in named.items() if level == "float"}
    fallback = {each.consumers[0] for each in report.quantized if "in the secondary format" in each.reason}
    assert fallback == {node for node, level in named.items() if level == "int8"}
    onnx_ir.load(folder / "q.onnx")


@pytest.mark.parametrize("mode", RECIPES)
def test_the_fallback_costs_less_than_float_for_the_same_goal(folder: Path, mode: str):
    recipe = RECIPES[mode]
    goal = worst(quantized(folder, recipe, None, "all.onnx")) + 6
    mixed, plain = (quantized(folder, each, goal).goal for each in (recipe, replace(recipe, fallback=None)))
    assert plain.fallback is None
    assert plain.finer == ()
    assert mixed.float_share + mixed.finer_share < plain.float_share


@pytest.mark.parametrize("mode", RECIPES)
def test_the_plan_gives_the_same_model_and_the_same_input_the_same_bytes(folder: Path, mode: str):
    recipe = RECIPES[mode]
    goal = worst(quantized(folder, recipe, None, "all.onnx")) + 4
    quantized(folder, recipe, goal)
    quantized(folder, recipe, goal, "again.onnx")
    assert (folder / "q.onnx").read_bytes() == (folder / "again.onnx").read_bytes()
    insert_plan(folder / "m.onnx", folder / "q.onnx.plan.json", folder / "inserted.onnx")
    assert formats(folder / "inserted.onnx") == formats(folder / "q.onnx")
    samples = rows(SHAPE, 3, seed=5)
    found = zip(outputs(folder / "q.onnx", samples), outputs(folder / "inserted.onnx", samples), strict=True)
    if mode == "fp8":
        assert all(np.array_equal(a, x) for one, other in found for a, x in zip(one, other, strict=True))


def test_a_layer_whose_input_has_outliers_takes_fp8_beside_int8(tmp_path: Path):
    """One channel is 400 times as large as the others and counts as much: one int8 scale leaves those few steps."""
    model = chain(3, width=64, uneven=1.0)
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor).copy() for tensor in model.graph.initializer}
    stored["w0"][:, 5] *= 400
    stored["w1"][5, :] /= 400
    for tensor in model.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(stored[tensor.name], tensor.name))
    save_with_validation(tmp_path, model)
    recipe = replace(MAX, fallback="fp8")
    low = worst(quantized(tmp_path, recipe, None, "all.onnx"))
    report = quantized(tmp_path, recipe, low + 6)
    assert kept(tmp_path, "q.onnx") >= low + 6
    assert levels(report) == {"m1": "fp8"}
    assert formats(tmp_path / "q.onnx") == {"m0": ("int8", "int8"), "m1": ("fp8", "fp8"), "m2": ("int8", "int8")}


@pytest.mark.builder
@pytest.mark.parametrize("mode", RECIPES)
def test_tensorrt_for_rtx_runs_layers_of_both_formats_as_planned(folder: Path, mode: str):
    recipe = RECIPES[mode]
    low = worst(quantized(folder, recipe, None, "all.onnx"))
    count = len(levels(quantized(folder, recipe, low + 4)))
    options = BuildOptions(compute_capabilities=("8.9",), timeout=300)
    report = build_engine(folder / "q.onnx", folder / "engine", backend="tensorrt-rtx", options=options)
    assert report.achieved == report.planned
    assert sorted(report.planned.values()) == sorted([count, 5 - count])
    assert len(report.planned) == 2


def test_layers_that_stay_in_the_mode_keep_the_codes_that_data_chose(folder: Path):
    low = worst(quantized(folder, INT4, None, "all.onnx"))
    report = quantized(folder, INT4, low + 4)

    def codes(name: str) -> dict[str, bytes]:
        proto = onnx.load(folder / name)
        stored = {tensor.name: tensor for tensor in proto.graph.initializer}
        used = {node.input[0] for node in proto.graph.node if node.op_type == "DequantizeLinear"}
        return {each: stored[each].raw_data for each in used if stored[each].data_type == TensorProto.INT4}

    whole, mixed = codes("all.onnx"), codes("q.onnx")
    assert mixed
    assert len(mixed) == 5 - len(levels(report))
    assert set(mixed.values()) < set(whole.values())


def test_what_stays_float_becomes_float16_beside_a_fallback(folder: Path):
    recipe = replace(INT4, high_precision=HighPrecision.FP16)
    low = worst(quantized(folder, recipe, None, "all.onnx"))
    report = quantized(folder, recipe, low + 4)
    assert report.high_precision is not None
    assert "int8" in levels(report).values()
    assert worst(report) >= low + 4


def test_a_goal_beyond_the_fallback_leaves_layers_in_float(folder: Path):
    reached = worst(quantized(folder, replace(INT4, quantize_mode="int8-weight-only", fallback=None), None, "8.onnx"))
    report = quantized(folder, INT4, reached + 3, whole_curve=True)
    assert "float" in levels(report).values()
    assert kept(folder, "q.onnx") >= reached + 3
    points = report.goal.curve if report.goal is not None else ()
    assert any(point.layers_in_fallback for point in points)
    for point in points:
        assert len(point.nodes) + len(point.fallback_nodes) <= 5
        assert not set(point.nodes) & set(point.fallback_nodes)


def test_without_a_layer_that_takes_it_the_fallback_is_reported_and_float_is_used(tmp_path: Path):
    """No fp8 Conv takes a kernel of 7 x 7."""
    random = np.random.default_rng(0)
    weights = {f"w{at}": random.normal(0, 0.3, (16, 1, 7, 7)).astype(np.float32) for at in range(3)}
    weights["w1"][3] *= 30
    nodes = [
        onnx.helper.make_node("Conv", [x, f"w{at}"], [y], name=y, group=16, pads=[3, 3, 3, 3])
        for at, (x, y) in enumerate([("x", "a"), ("a", "b"), ("b", "y")])
    ]
    shape = (1, 16, 8, 8)
    save_with_validation(tmp_path, make_model(nodes, {"x": shape}, {"y": shape}, weights), shape)
    recipe = replace(MAX, fallback="fp8")
    low = worst(quantized(tmp_path, recipe, None, "all.onnx"))
    report = quantized(tmp_path, recipe, low + 2)
    assert (report.goal.fallback, report.goal.finer) == ("fp8", ())
    assert report.goal.left


def test_a_fallback_without_a_goal_is_refused(folder: Path):
    with pytest.raises(UsageError, match="--fallback needs --min-sqnr or --max-metric-loss"):
        QuantizeOptions(recipe=INT4)
    with pytest.raises(ArgumentError, match="fallback 'int2' is unknown"):
        replace(INT4, fallback="int2")


MODEL = ROOT / "sample_models" / "digits_transformer"


@pytest.mark.slow(reason="a search for each fallback")
def test_a_file_of_measurements_serves_every_fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    recipe, measured = Recipe(quantize_mode="int4"), tmp_path / "s.json"
    runs = [0]
    run = MaskedRuns._run

    def counted(self: MaskedRuns, *asked: object) -> object:
        runs[0] += 1
        return run(self, *asked)  # type: ignore[arg-type]

    monkeypatch.setattr(MaskedRuns, "_run", counted)
    source, data = MODEL / "model.onnx", MODEL / "calibration.npz"
    measure_sensitivity(source, data, SensitivityOptions(recipe=recipe, output=measured))

    def found(fallback: str | None, name: str, kept_in: Path | None) -> tuple[bytes, int]:
        runs[0] = 0
        goal = AccuracyGoal(min_sqnr_db=45.0, sensitivity_file=kept_in)
        quantize_model(
            source, data, tmp_path / name, QuantizeOptions(recipe=replace(recipe, fallback=fallback), goal=goal)
        )
        return (tmp_path / name).read_bytes(), runs[0]

    for fallback in (None, "int8", "fp8"):
        alone, without = found(fallback, "a.onnx", None)
        first, fewer = found(fallback, "b.onnx", measured)
        again, none = found(fallback, "c.onnx", measured)
        assert alone == first == again
        assert none < fewer < without
    keys = json.loads(measured.read_text())["entries"]
    assert {key.split()[2].split("-")[0] for key in keys if key.startswith("alone") and "-" in key} == {"int8", "fp8"}
