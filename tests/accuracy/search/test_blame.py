"""The layers that quantize names, against quantizing anew with each layer in float."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.command import qdqtool
from support.layered import MAX, chain, outputs, rows, save, sqnr
from support.small import make_model

from qdqtool.accuracy.report import BlameReport
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.quantization.planning.placement import Selection
from qdqtool.samples.request import RandomData

LAYERS = 6


def uneven_inside(factor: float, at: int = 2) -> onnx.ModelProto:
    """A chain of products; what ``m<at>`` reads has one channel ``factor`` times as large as the others."""
    model = chain(LAYERS, uneven=1.0)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    before, behind = (onnx.numpy_helper.to_array(weights[f"w{n}"]).copy() for n in (at - 1, at))
    before[:, 0] *= factor
    behind[0] /= factor
    for name, array in ((f"w{at - 1}", before), (f"w{at}", behind)):
        weights[name].CopyFrom(onnx.numpy_helper.from_array(array, name))
    return model


def blame_of(folder: Path, **changes: object) -> BlameReport | None:
    options = QuantizeOptions(recipe=replace(MAX, **changes))
    return quantize_model(folder / "m.onnx", folder / "d.npz", folder / "q.onnx", options).blame


def kept(folder: Path, *exclude: str) -> float:
    """SQNR of the output on the first samples with some nodes in float."""
    recipe = replace(MAX, selection=Selection(nodes_to_exclude=exclude))
    quantize_model(folder / "m.onnx", folder / "d.npz", folder / "f.onnx", QuantizeOptions(recipe=recipe))
    samples = rows()
    return min(sqnr(outputs(folder / "m.onnx", samples), outputs(folder / "f.onnx", samples)))


@pytest.mark.parametrize("factor", [3000.0, 100.0])
def test_the_layer_whose_input_is_uneven_is_named_and_its_patterns_leave_it_in_float(tmp_path: Path, factor: float):
    save(tmp_path, uneven_inside(factor), rows())
    found = blame_of(tmp_path)
    first, whole = found.layers[0], kept(tmp_path)
    gains = {f"m{n}": kept(tmp_path, f"m{n}") - whole for n in range(LAYERS)}
    assert first.node == max(gains, key=lambda name: gains[name]) == "m2"
    assert first.dominant
    assert first.without_db is not None
    assert found.whole_db is not None
    assert first.without_db - found.whole_db == pytest.approx(gains["m2"], abs=1.5)
    assert kept(tmp_path, *first.exclude) == kept(tmp_path, "m2") > whole + 3
    assert (first.macs_share, first.weights_share) == pytest.approx((1 / LAYERS, 1 / LAYERS), abs=1e-6)


def test_where_all_layers_make_the_same_none_is_named(tmp_path: Path):
    random = np.random.default_rng(5)
    weights = {f"w{n}": random.normal(0, 0.25, (16, 16)).astype(np.float32) for n in range(8)}
    nodes = [helper.make_node("MatMul", ["x", f"w{n}"], [f"y{n}"], name=f"m{n}") for n in range(8)]
    nodes.append(helper.make_node("Concat", [f"y{n}" for n in range(8)], ["y"], name="join", axis=1))
    save(tmp_path, make_model(nodes, {"x": (4, 16)}, {"y": (4, 128)}, weights), rows())
    # One tensor is read by all of them: one layer would be all of it.
    found = blame_of(tmp_path)
    assert len(found.layers) <= 1
    save(tmp_path, chain(8, uneven=1.0), rows())
    even = blame_of(tmp_path)
    assert even.layers == ()
    assert 1 / 8 <= even.rest_share <= 0.6


def test_random_data_blames_nobody(tmp_path: Path):
    save(tmp_path, uneven_inside(3000.0), rows())
    options = QuantizeOptions(recipe=MAX)
    assert quantize_model(tmp_path / "m.onnx", RandomData(), tmp_path / "q.onnx", options).blame is None


def test_the_same_layers_twice(tmp_path: Path):
    save(tmp_path, uneven_inside(3000.0), rows())
    assert blame_of(tmp_path) == blame_of(tmp_path)


def test_what_the_text_says_to_paste_works(tmp_path: Path):
    save(tmp_path, uneven_inside(3000.0), rows())
    plain = ("--no-equalize", "--no-bias-correction")
    words = ("quantize", "m.onnx", "--calib-data", "d.npz", "--calibration-method", "max", *plain)
    done = qdqtool(*words, "-o", "q.onnx", cwd=tmp_path)
    assert done.code == 0
    text = " ".join(done.out.split())
    assert "m2 makes more noise than all other layers together" in text
    hint = re.search(r"to leave (?:it|them) in float: `([^`]*)`", text)
    assert qdqtool(*words, *shlex.split(hint[1]), "-o", "f.onnx", cwd=tmp_path).code == 0
    samples = rows()
    before, after = (
        min(sqnr(outputs(tmp_path / "m.onnx", samples), outputs(tmp_path / name, samples)))
        for name in ("q.onnx", "f.onnx")
    )
    assert after > before + 3


def test_a_search_for_a_goal_tells_of_every_run(tmp_path: Path):
    save(tmp_path, chain(5), rows())
    told: list[tuple[int, int]] = []
    options = QuantizeOptions(recipe=MAX, goal=AccuracyGoal(min_sqnr_db=32))
    report = quantize_model(
        tmp_path / "m.onnx", tmp_path / "d.npz", tmp_path / "q.onnx", options, None, lambda *done: told.append(done)
    )
    (most,) = {most for _, most in told}
    assert [done for done, _ in told] == [min(done, most) for done in range(report.goal.runs)]
