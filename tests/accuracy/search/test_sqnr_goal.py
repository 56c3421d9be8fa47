"""Models that keep an accuracy that was asked for, measured by ONNX Runtime and read node by node."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from accuracy.layers.test_layer import attention, branches, residual, stored, tiny, turned_weights
from onnx import TensorProto, helper
from support.layered import AS_IT_IS, MAX, chain, dividing, nodes_with_pairs, outputs, rows, save, sqnr
from support.small import make_model

from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.errors import GateError, UsageError
from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.jobs.insert import insert_plan
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.quantization.planning.options import Existing, HighPrecision, Preparation
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.request import FileData, RandomData
from qdqtool.samples.split import split_samples

COUNT = 12
SLOW = pytest.mark.slow(reason="a search on each of six networks")
NETWORKS = {
    "chain": (lambda: chain(5, uneven=40), (4, 16)),
    "residual": (residual, (1, 16, 4, 4)),
    "attention": (attention, (16, 16)),
    "turned weights": (turned_weights, (4, 16)),
    "branches": (branches, (4, 16)),
    "tiny": (tiny, (1, 16, 4, 4)),
}


def folder_with(
    folder: Path, model: onnx.ModelProto, samples: Sequence[Mapping[str, np.ndarray]], other: Sequence[Mapping] = ()
) -> Path:
    """A folder with a model, its data, and validation data if there is any."""
    if other:
        save(folder, model, other)
        (folder / "d.npz").rename(folder / "v.npz")
    save(folder, model, samples)
    return folder


@pytest.fixture
def network(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[dict[str, np.ndarray]]]:
    make, shape = NETWORKS[request.param]
    other = rows(shape, 6, seed=77)
    return folder_with(tmp_path, make(), rows(shape, COUNT), other), other


def on_networks(*quick: str, without: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Run a test on each network; `make test` does so on some."""
    names = [name for name in NETWORKS if name not in without]
    return pytest.mark.parametrize(
        "network", [name if name in quick else pytest.param(name, marks=SLOW) for name in names], indirect=True
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_with(tmp_path, chain(5, uneven=40), rows(count=COUNT), rows(count=6, seed=77))


def quantized(
    folder: Path,
    goal: float | None,
    name: str = "q.onnx",
    *,
    curve: bool = False,
    data: object = "d.npz",
    **more: object,
) -> QuantizeReport:
    wanted = None if goal is None else AccuracyGoal(min_sqnr_db=goal, whole_curve=curve)
    source = folder / data if isinstance(data, str) else data
    return quantize_model(
        folder / "m.onnx", source, folder / name, QuantizeOptions(**{"recipe": MAX, **more, "goal": wanted})
    )


def kept(folder: Path, name: str, samples: Sequence[Mapping[str, np.ndarray]]) -> float:
    return min(sqnr(outputs(folder / "m.onnx", samples), outputs(folder / name, samples)))


def held_back(folder: Path) -> tuple[list[dict[str, np.ndarray]], list[dict[str, np.ndarray]]]:
    """The choosing samples and the hold-out samples."""
    x = np.load(folder / "d.npz")["x"]
    model = onnx.load(folder / "m.onnx")
    extent = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
    each = [{"x": row[None] if extent == 1 else row} for row in x]
    split = split_samples(len(each))
    return [each[number] for number in split.choosing], [each[number] for number in split.held]


@on_networks("chain", "attention", "branches", "tiny")
def test_the_written_model_keeps_the_goal_on_validation_data(network):
    folder, other = network
    validation = folder / "v.npz"
    before = quantized(folder, None, "all.onnx", validation_data=validation)
    low = kept(folder, "all.onnx", other)
    for more in (1.0, 2.5):
        report = quantized(folder, low + more, validation_data=validation)
        found = kept(folder, "q.onnx", other)
        assert found >= low + more
        assert report.goal.worst_db == pytest.approx(found, abs=2e-4)
        assert report.goal.worst_without_db == pytest.approx(low, abs=2e-4)
        assert report.goal.left
        assert len(report.quantized) < len(before.quantized)


# Not with branches: labels of their nodes are the same in both.
@on_networks("chain", "residual", without=["branches"])
def test_the_rehearsal_keeps_the_goal_on_samples_that_are_held_back(network):
    folder, _ = network
    choosing, held = held_back(folder)
    low = report_worst(quantized(folder, None))
    report = quantized(folder, low + 2)
    assert (report.accuracy.held_back, report.accuracy.samples) == (True, len(held))
    assert report.goal.worst_db == report_worst(report) >= low + 2
    # The rehearsal, made as another model: calibrated with the choosing samples alone.
    other = folder / "rehearsal"
    other.mkdir()
    save(other, onnx.load(folder / "m.onnx"), choosing)
    names = [re.sub(r"([*?[])", r"[\1]", node) for layer in report.goal.left for node in layer.nodes]
    recipe = replace(MAX, selection=Selection(nodes_to_exclude=tuple(names)))
    # As validation data stands beside it, all of these samples choose.
    np.savez(other / "v.npz", x=np.load(folder / "d.npz")["x"][:4])
    quantize_model(
        other / "m.onnx",
        other / "d.npz",
        other / "q.onnx",
        QuantizeOptions(recipe=recipe, validation_data=other / "v.npz"),
    )
    found = kept(other, "q.onnx", held)
    assert found >= low + 2
    assert found == pytest.approx(report.goal.worst_db, abs=2e-4)


def report_worst(report: QuantizeReport) -> float:
    return min(output.sqnr_db for output in report.accuracy.outputs if output.sqnr_db is not None)


def computing(model: onnx.ModelProto) -> set[str]:
    """Output names of nodes that read a pair, in every graph, through nodes that move a weight."""
    found = set[str]()

    def walk(graph: onnx.GraphProto, outer: set[str]) -> None:
        behind = set(outer)
        for node in graph.node:
            if node.op_type == "DequantizeLinear" or (
                node.op_type in {"Transpose", "Identity"} and behind & set(node.input)
            ):
                behind |= set(node.output)
            elif behind & set(node.input) and node.op_type != "QuantizeLinear":
                found.update(node.output)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    walk(attribute.g, behind)

    walk(model.graph, set())
    return found


@on_networks("residual", "branches", "turned weights")
def test_the_nodes_of_the_report_are_exactly_those_that_lost_their_pairs(network):
    folder, _ = network
    low = report_worst(quantized(folder, None, "all.onnx"))
    report = quantized(folder, low + 2)
    whole, rest = (computing(onnx.load(folder / name)) for name in ("all.onnx", "q.onnx"))
    left = [label for layer in report.goal.left for label in layer.nodes]
    skipped = [entry.node for entry in report.skipped if "to reach the requested accuracy" in entry.reason]
    assert sorted(skipped) == sorted(left)
    assert rest < whole
    assert len(whole - rest) == len(left)
    if "then_branch" not in str(onnx.load(folder / "m.onnx")):
        names = {node.output[0]: node.name for node in onnx.load(folder / "m.onnx").graph.node}
        assert {names[output] for output in whole - rest} == set(left)
    assert report.goal.layers >= len(report.goal.left)


@on_networks("branches", "attention")
def test_a_saved_plan_gives_the_same_model(network):
    folder, other = network
    low = report_worst(quantized(folder, None))
    report = quantized(folder, low + 2, plan_file=folder / "p.json", ranges_file=folder / "r.json")
    assert report.goal is not None
    insert_plan(folder / "m.onnx", folder / "p.json", folder / "i.onnx")
    one, two = (outputs(folder / name, other) for name in ("q.onnx", "i.onnx"))
    assert [a.tobytes() for run in one for a in run] == [a.tobytes() for run in two for a in run]
    # The ranges file fits the model without the option too.
    quantized(folder, None, "r.onnx", data=CachedRanges(path=folder / "r.json"))


@on_networks("residual")
def test_a_goal_that_is_kept_already_leaves_nothing_in_float(network):
    folder, _ = network
    report = quantized(folder, None, "all.onnx")
    found = quantized(folder, report_worst(report) - 1)
    assert found.goal is None
    assert (folder / "q.onnx").read_bytes() == (folder / "all.onnx").read_bytes()
    assert found.quantized == report.quantized


@on_networks("tiny", "turned weights")
def test_a_goal_that_no_model_keeps_writes_nothing_and_its_hint_works(network):
    folder, _ = network
    low = report_worst(quantized(folder, None, "all.onnx"))
    before = sorted(folder.iterdir())
    files = {"plan_file": folder / "p.json", "ranges_file": folder / "r.json", "curve_file": folder / "c.json"}
    with pytest.raises(GateError) as caught:
        quantized(folder, 200.0, curve=True, **files)
    assert sorted(folder.iterdir()) == before
    assert "all keep 200 dB" in caught.value.message
    assert f"{low:.1f} dB with every layer quantized" in caught.value.message
    assert re.search(r"the search reached [\d.]+ dB with \d+ of \d+ layers in float", caught.value.message)
    hinted = re.search(r"`--min-sqnr (-?\d+)`", caught.value.hint or "")
    assert hinted
    report = quantized(folder, float(hinted[1]))
    assert report_worst(report) >= float(hinted[1]) > low - 1
    more = re.search(r"the search reached ([\d.]+) dB", caught.value.message)
    assert more
    assert float(more[1]) > low


@on_networks("chain", "branches")
def test_the_curve_gives_up_accuracy_for_what_is_quantized(network):
    folder, _ = network
    low = report_worst(quantized(folder, None, "all.onnx"))
    for goal in (low - 3, low + 2):
        report = quantized(folder, goal, curve=True, curve_file=folder / "c.json")
        document = json.loads((folder / "c.json").read_text())
        assert document["schema_version"] == 1
        points = document["points"]
        shares, decibels = ([point[key] for point in points] for key in ("quantized_share", "worst_sqnr_db"))
        assert shares[0] == 1
        assert shares == sorted(shares, reverse=True)
        assert decibels == sorted(set(decibels))
        assert len(points) > 1
        for point in points:
            assert 0 < point["quantized_share"] <= 1
            assert (point["layers_in_float"] == 0) == (point["nodes"] == [])
        assert decibels[-1] >= goal
        assert report.curve_file == str(folder / "c.json")


@pytest.mark.parametrize(
    "name",
    ["tiny", *(pytest.param(name, marks=pytest.mark.slow(reason="two searches")) for name in ("chain", "residual"))],
)
def test_samples_that_lose_more_than_those_of_the_search_are_served_too(tmp_path: Path, name: str):
    """Ranges of the choosing part clip large values of the others: no target of the search stands for that."""
    make, shape = NETWORKS[name]
    folder = folder_with(tmp_path, make(), rows(shape, COUNT, tail=0.9))
    low = report_worst(quantized(folder, None, "all.onnx"))
    with pytest.raises(GateError) as caught:
        quantized(folder, 200.0)
    most = re.search(r"best model has ([\d.]+) dB on the samples that measure", caught.value.message)
    assert most
    for goal in (low + 0.5, float(most[1]) - 0.1):
        report = quantized(folder, goal)
        assert report_worst(report) >= goal
        assert len(report.goal.left) < report.goal.layers


def test_the_same_input_gives_the_same_bytes(folder: Path):
    low = report_worst(quantized(folder, None))
    reports = [quantized(folder, low + 4, f"{at}.onnx", curve=True, curve_file=folder / f"{at}.json") for at in (1, 2)]
    assert (folder / "1.onnx").read_bytes() == (folder / "2.onnx").read_bytes()
    assert (folder / "1.json").read_bytes() == (folder / "2.json").read_bytes()
    assert reports[0].goal == reports[1].goal


@pytest.mark.parametrize("data", ["none", "ranges", "validation"])
def test_without_samples_a_goal_is_refused(folder: Path, data: str):
    recipe = replace(MAX, quantize_mode="int8-weight-only")
    more: dict[str, object] = {"recipe": recipe, "data": None}
    if data == "ranges":
        calibrate_to_file(folder / "m.onnx", folder / "d.npz", folder / "r.json", MAX)
        more = {"data": CachedRanges(path=folder / "r.json")}
    if data == "validation":
        more["validation_data"] = folder / "v.npz"
    with pytest.raises(UsageError, match="there are no samples") as caught:
        quantized(folder, 30.0, **more)
    assert "--calib-data" in (caught.value.hint or "")
    assert not (folder / "q.onnx").exists()


def turned(transposed: bool) -> onnx.ModelProto:
    """Three products whose weights are stored as they are read, or behind a Transpose; the second has outliers."""
    weights = {name: stored(64, 64, seed=at) for at, name in enumerate("abc")}
    weights["b"][3] *= 30
    nodes, last = [], "x"
    for name in "abc":
        read = name
        if transposed:
            nodes.append(helper.make_node("Transpose", [name], [f"{name}_t"], perm=[1, 0]))
            read = f"{name}_t"
        output = "y" if name == "c" else f"{name}_y"
        nodes.append(helper.make_node("MatMul", [last, read], [output], name=f"m_{name}"))
        last = output
        if name != "c":
            nodes.append(helper.make_node("Relu", [output], [f"{name}_r"], name=f"r_{name}"))
            last = f"{name}_r"
    return make_model(nodes, {"x": (4, 64)}, {"y": (4, 64)}, weights)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("mode", ["int4", "int8-weight-only", "nvfp4"])
def test_weights_alone_keep_a_goal_too(tmp_path: Path, mode: str, transposed: bool):
    folder = folder_with(tmp_path, turned(transposed), rows((4, 64), COUNT), rows((4, 64), 6, seed=77))
    more = {"recipe": Recipe(quantize_mode=mode, preparation=AS_IT_IS), "validation_data": folder / "v.npz"}
    low = report_worst(quantized(folder, None, "all.onnx", **more))
    report = quantized(folder, low + 3, **more)
    assert report_worst(report) >= low + 3
    left = {label for layer in report.goal.left for label in layer.nodes}
    assert left
    whole, rest = (nodes_with_pairs(onnx.load(folder / name)) for name in ("all.onnx", "q.onnx"))
    assert whole == {"m_a", "m_b", "m_c"}
    assert rest == whole - left
    if mode != "nvfp4":
        assert kept(folder, "q.onnx", rows((4, 64), 6, seed=77)) >= low + 3


def test_layers_beside_those_that_are_quantized_already(folder: Path):
    first = replace(MAX, selection=Selection(nodes_to_quantize=("m0", "m1")))
    quantized(folder, None, "part.onnx", recipe=first)
    (folder / "part.onnx").rename(folder / "m.onnx")
    more = {"recipe": replace(MAX, existing=Existing.KEEP), "validation_data": folder / "v.npz"}
    low = report_worst(quantized(folder, None, "all.onnx", **more))
    report = quantized(folder, low + 2, **more)
    assert kept(folder, "q.onnx", rows(count=6, seed=77)) >= low + 2
    left = {label for layer in report.goal.left for label in layer.nodes}
    assert nodes_with_pairs(onnx.load(folder / "q.onnx")) == {f"m{number}" for number in range(5)} - left
    assert not left & {"m0", "m1"}
    replaced = quantized(folder, low, recipe=replace(MAX, existing=Existing.REPLACE))
    assert report_worst(replaced) >= low


def test_what_stays_float_can_become_float16(folder: Path):
    more = {"recipe": replace(MAX, high_precision=HighPrecision.FP16), "validation_data": folder / "v.npz"}
    low = report_worst(quantized(folder, None, "all.onnx", **more))
    report = quantized(folder, low + 3, **more)
    assert report.goal is not None
    assert report.high_precision is not None
    assert kept(folder, "q.onnx", rows(count=6, seed=77)) >= low + 3
    stored = onnx.load(folder / "q.onnx").graph.initializer
    assert TensorProto.FLOAT16 in {each.data_type for each in stored}


@pytest.mark.parametrize("more", [{"recipe": Recipe(preparation=Preparation())}, {"data": RandomData(samples=8)}])
def test_preparation_and_the_choice_of_a_method_come_first_and_random_data_serves_too(folder: Path, more: dict):
    low = report_worst(quantized(folder, None, "all.onnx", **more))
    report = quantized(folder, low + 3, **more)
    assert report.goal is not None
    assert report_worst(report) >= low + 3


def test_ranges_from_a_file_with_data(folder: Path):
    calibrate_to_file(folder / "m.onnx", folder / "d.npz", folder / "r.json", MAX)
    source = CachedRanges(path=folder / "r.json", data=FileData(path=folder / "d.npz"))
    low = report_worst(quantized(folder, None, "all.onnx", data=source))
    report = quantized(folder, low + 3, data=source)
    assert report.goal is not None
    assert report_worst(report) >= low + 3
    every = [{"x": row} for row in np.load(folder / "d.npz")["x"]]
    assert kept(folder, "q.onnx", every) >= low + 3


def test_a_model_with_open_shapes(tmp_path: Path):
    model = chain(4)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    samples = rows(count=COUNT)
    folder = folder_with(tmp_path, model, samples)
    np.savez(folder / "d.npz", x=np.stack([each["x"] for each in samples]).reshape(-1, 16))
    low = report_worst(quantized(folder, None, "all.onnx"))
    report = quantized(folder, low + 2)
    assert report.goal is not None
    assert report_worst(report) >= low + 2


def test_a_model_without_float_outputs_keeps_no_goal(tmp_path: Path):
    model = chain(3)
    model.graph.node.append(helper.make_node("ArgMax", ["y"], ["class"], axis=-1, keepdims=0))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("class", TensorProto.INT64, (4,)))
    folder = folder_with(tmp_path, model, rows(count=COUNT))
    with pytest.raises(UsageError, match="cannot be measured: no output is a float tensor"):
        quantized(folder, 20.0)
    assert not (folder / "q.onnx").exists()
    quantized(folder, None)


def test_layers_that_make_infinity_stay_in_float(tmp_path: Path):
    folder = folder_with(tmp_path, *dividing())
    report = quantized(folder, 30.0)
    assert {layer.node for layer in report.goal.left} == {"first", "second"}
    assert report.goal.worst_without_db == -np.inf
    with pytest.raises(GateError, match="NaN or infinity with every layer quantized") as caught:
        quantized(folder, 300.0)
    hinted = re.search(r"`--min-sqnr (-?\d+)`", caught.value.hint or "")
    assert hinted
    assert quantized(folder, float(hinted[1])).goal is not None


def test_a_model_with_one_layer_keeps_a_goal_or_does_not(tmp_path: Path):
    folder = folder_with(tmp_path, chain(1), rows(count=COUNT))
    low = report_worst(quantized(folder, None, "all.onnx"))
    assert quantized(folder, low - 1).goal is None
    with pytest.raises(GateError, match=r"with 0 of 1 layers in float"):
        quantized(folder, low + 1)
    quantized(folder, low - 1, curve=True, curve_file=folder / "c.json")
    points = json.loads((folder / "c.json").read_text())["points"]
    assert [point["layers_in_float"] for point in points] == [0]


def test_a_model_that_quantizing_does_not_change_has_a_curve_of_one_point(tmp_path: Path):
    model = make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="m")],
        {"x": (4, 16)},
        {"y": (4, 16)},
        {"w": np.eye(16, dtype=np.float32) * 127},
    )
    samples = [{"x": np.full((4, 16), 127 - at, np.float32) * np.float32(0.5)} for at in range(COUNT)]
    for sample in samples:
        sample["x"][0, 0] = 63.5
    folder = folder_with(tmp_path, model, samples)
    data = FileData(path=folder / "d.npz", allow_constant=True)
    report = quantized(folder, 30.0, curve=True, curve_file=folder / "c.json", data=data)
    assert report.goal is None
    points = json.loads((folder / "c.json").read_text())["points"]
    none = {"layers_in_float": 0, "nodes": [], "layers_in_fallback": 0, "fallback_nodes": []}
    assert points == [{**none, "quantized_share": 1.0, "worst_sqnr_db": None}]
