"""The layers that a check names, where pairs are not the cause, and counterparts of places in the baseline."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from accuracy.search.test_blame import uneven_inside
from onnx import parser
from support.layered import MAX, chain, rows, save
from support.printed import printed

from qdqtool.accuracy.checking.check_blame import BlameRequest
from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.accuracy.report import BlameReport
from qdqtool.errors import UsageError
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.quantization.planning.options import Preparation
from qdqtool.reports.advice import clipping_cause
from qdqtool.reports.text.sensitivity import print_pairs_blamed

ALWAYS = BlameRequest(always=True)


def quantized(folder: Path, model: onnx.ModelProto, *, corrected: bool = False) -> None:
    save(folder, model, rows())
    steps = Preparation(equalize=False, smoothquant=None, bias_correction=corrected, awq=False)
    options = QuantizeOptions(recipe=replace(MAX, preparation=steps))
    quantize_model(folder / "m.onnx", folder / "d.npz", folder / "q.onnx", options)


def check(folder: Path, request: BlameRequest | None = None, min_sqnr: float | None = None) -> CheckReport:
    options = CheckOptions(gates=Gates(min_sqnr=min_sqnr))
    return check_model(
        folder / "q.onnx", baseline=folder / "m.onnx", data=folder / "d.npz", options=options, blame=request
    )


def blame(folder: Path) -> BlameReport:
    report = check(folder, ALWAYS)
    assert report.blame is not None
    return report.blame


def test_layers_are_named_where_a_gate_on_outputs_fails_and_else_on_request_only(tmp_path: Path):
    quantized(tmp_path, chain(5))
    green = check(tmp_path, min_sqnr=5)
    assert green.passed
    assert green.blame is None
    missed = check(tmp_path, min_sqnr=90)
    assert missed.blame is not None
    assert not missed.passed
    assert missed.blame == blame(tmp_path)


def test_the_layer_with_the_uneven_input_is_the_first_and_dominant(tmp_path: Path):
    quantized(tmp_path, uneven_inside(3000.0))
    found = blame(tmp_path)
    assert found.layers[0].node == "m2"
    assert found.layers[0].dominant
    assert found.layers[0].exclude == ("m2",)
    assert found.left_out == ()
    # With all pairs off the model is the float model.
    assert found.float_db is None
    assert found.layers[0].macs_share == pytest.approx(1 / 6, abs=1e-6)


@pytest.mark.parametrize("loud", [1, 3])
def test_a_scale_that_somebody_spoiled_is_found(tmp_path: Path, loud: int):
    quantized(tmp_path, chain(5, uneven=1.0))
    model = onnx.load(tmp_path / "q.onnx")
    product = next(node for node in model.graph.node if node.name == f"m{loud}")
    pair = [node for node in model.graph.node if product.input[0] in node.output]
    pair += [node for node in model.graph.node if pair[0].input[0] in node.output]
    for tensor in model.graph.initializer:
        if tensor.name == pair[0].input[1]:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) * 20, tensor.name))
    onnx.save(model, tmp_path / "q.onnx")
    assert blame(tmp_path).layers[0].node == f"m{loud}"


def test_corrected_biases_go_with_their_layers(tmp_path: Path):
    quantized(tmp_path, with_biases(), corrected=True)
    stored, given = (
        {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(tmp_path / name).graph.initializer}
        for name in ("q.onnx", "m.onnx")
    )
    changed = [name for name in stored if name.startswith("b") and "corrected" in name]
    assert changed
    assert not set(changed) & set(given)
    assert blame(tmp_path).float_db is None


def with_biases() -> onnx.ModelProto:
    """The chain with a Gemm in place of each product, which has a bias."""
    model = chain(4)
    random = np.random.default_rng(1)
    for number, node in enumerate(each for each in model.graph.node if each.op_type == "MatMul"):
        node.op_type = "Gemm"
        node.input.append(f"b{number}")
        bias = random.normal(size=16).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(bias, f"b{number}"))
    return model


def test_where_the_pairs_are_not_the_cause_it_is_said(tmp_path: Path):
    quantized(tmp_path, with_biases())
    model = onnx.load(tmp_path / "m.onnx")
    # Another network beside the same weights.
    relu = next(node for node in model.graph.node if node.op_type == "Relu")
    relu.op_type = "Sigmoid"
    onnx.save(model, tmp_path / "m.onnx")
    found = blame(tmp_path)
    text = " ".join(printed(print_pairs_blamed, found).split())
    assert found.float_db is not None
    assert "the two models also differ in other ways" in text
    quantized(tmp_path, with_biases())
    assert "other differences" not in printed(print_pairs_blamed, blame(tmp_path))


def test_a_model_without_pairs_has_nothing_to_switch(tmp_path: Path):
    save(tmp_path, chain(2), rows())
    (tmp_path / "q.onnx").write_bytes((tmp_path / "m.onnx").read_bytes())
    assert blame(tmp_path).problem == "no pair can be switched"


def test_without_a_baseline_it_is_refused(tmp_path: Path):
    save(tmp_path, chain(2), rows())
    with pytest.raises(UsageError, match="--blame compares with a baseline"):
        check_model(tmp_path / "m.onnx", blame=ALWAYS)


def test_progress_is_told(tmp_path: Path):
    quantized(tmp_path, chain(4))
    told: list[tuple[int, int]] = []
    check(tmp_path, BlameRequest(always=True, tick=lambda done, most: told.append((done, most))))
    assert [done for done, _ in told] == list(range(len(told)))
    assert told


def shrunk(folder: Path, factor: float) -> None:
    """Quantize the chain, then make every range of an activation narrower."""
    quantized(folder, chain(5, uneven=1.0))
    model = onnx.load(folder / "q.onnx")
    scales = {node.input[1] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    for tensor in model.graph.initializer:
        if tensor.name in scales:
            value = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(value * factor, value.dtype), tensor.name))
    onnx.save(model, folder / "q.onnx")


def test_each_part_is_undone_alone_and_its_gain_is_measured(tmp_path: Path):
    shrunk(tmp_path, 1.0)
    found = blame(tmp_path)
    assert found.whole_db is not None
    parts = {each.cause: each for each in found.causes}
    assert {name: each.sites for name, each in parts.items()} == {"activations": 5, "weights": 5}
    assert all(each.undone_db > found.whole_db for each in found.causes)
    assert [each.undone_db for each in found.causes] == sorted((each.undone_db for each in found.causes), reverse=True)
    assert clipping_cause(found) is None
    assert found.calibrator == "max"


def test_ranges_that_clip_are_named_before_layers(tmp_path: Path):
    shrunk(tmp_path, 0.2)
    found = blame(tmp_path)
    text = printed(print_pairs_blamed, found)
    clipping = clipping_cause(found)
    assert clipping is not None
    assert clipping.sites == 5
    assert clipping.clipped_share > 0.05
    assert "5 x activations with much clipping, in float: " in text
    assert "the ranges of the method 'max', which the model records, clip up to " in text
    assert "`--calibration-method max`" in text
    assert "--nodes-to-exclude" not in text
    shrunk(tmp_path, 1.0)
    assert "--nodes-to-exclude" in printed(print_pairs_blamed, blame(tmp_path))


def test_one_scale_for_all_channels_is_undone_by_one_for_each(tmp_path: Path):
    random = np.random.default_rng(1)
    weight = (random.normal(size=(16, 16)) * np.logspace(0, -3, 16)).astype(np.float32)
    scale = np.float32(np.abs(weight).max() / 127)
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[4,16] x) => (float[4,16] y) { %s y = MatMul (x, w) }"""
    plain, packed = (parser.parse_model(text % each) for each in ("", "w = DequantizeLinear (c, s)"))
    plain.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    for name, array in (("c", np.rint(weight / scale).astype(np.int8)), ("s", scale)):
        packed.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    onnx.save(plain, tmp_path / "m.onnx")
    onnx.save(packed, tmp_path / "q.onnx")
    np.savez(tmp_path / "d.npz", x=random.normal(size=(8, 4, 16)).astype(np.float32).reshape(32, 16))

    found = blame(tmp_path)
    first, second = found.causes

    assert (first.cause, first.undone_db) == ("weights", None)
    assert (second.cause, second.sites) == ("per-tensor weights", 1)
    assert found.whole_db is not None
    assert second.undone_db is not None
    assert second.undone_db > found.whole_db + 3
    assert "1 x weights, with one scale for each channel: " in printed(print_pairs_blamed, found)
