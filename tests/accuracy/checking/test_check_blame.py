"""The layers that a check names, where pairs are not the cause, and counterparts of places in the baseline."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from accuracy.search.test_blame import uneven_inside
from onnx import helper, parser
from support.layered import MAX, chain, rows, save
from support.printed import printed

from qdqtool.accuracy.checking.check_blame import BaselineMatcher, BlameRequest
from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.accuracy.report import BlameReport
from qdqtool.errors import UsageError
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.taps import Hop, Tap
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


BASELINE = """
<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[2] x, bool c) => (float[2] y)
{
  a = my.Twice (x)
  y = If (c) <
    then_branch = t () => (float[2] p) { p = Neg (a) },
    else_branch = e () => (float[2] q) { q = Abs (a) }
  >
}
<domain: "my", opset_import: ["": 21]>
Twice (u) => (w) { w = Add (u, u) }
"""


def counterpart(*hops: Hop) -> tuple[Hop, ...]:
    view = GraphView(Model(parser.parse_model(BASELINE)))
    matcher = BaselineMatcher(view, view)
    return matcher.tap(Tap("out", hops)).hops


def test_bodies_and_calls_are_found_without_the_words_that_tools_append():
    body, call = Hop("y.then_branch"), Hop("a", is_call=True)
    assert counterpart(body, call) == (body, call)
    renamed = Hop("y_QuantizeInput.then_branch"), Hop("a_DequantizeLinear_Output", is_call=True)
    assert counterpart(*renamed) == (body, call)


def test_what_the_baseline_does_not_have_keeps_its_name():
    unknown = Hop("z_float.then_branch"), Hop("z_float", is_call=True)
    assert counterpart(*unknown) == unknown


def test_a_body_may_be_called_as_if_it_were_a_call():
    """The name of a tensor decides nothing about the place."""
    model = parser.parse_model(BASELINE)
    model.graph.node[1].output[0] = model.graph.output[0].name = "call y"
    hop, view = Hop("call y_float.then_branch"), GraphView(Model(model))
    assert BaselineMatcher(view, view).tap(Tap("out", (hop,))).hops == (Hop("call y.then_branch"),)


def test_bodies_and_calls_with_other_names_are_found_by_their_structure():
    model = parser.parse_model(BASELINE.replace(" a", " one").replace(" y", " two"))
    matcher = BaselineMatcher(GraphView(Model(parser.parse_model(BASELINE))), GraphView(Model(model)))
    hops = Hop("two.else_branch"), Hop("one", is_call=True)
    assert matcher.tap(Tap("out", hops)).hops == (Hop("y.else_branch"), Hop("a", is_call=True))


# --- the tensors that a Q or DQ may stand for, the best first ---

QUANTIZED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[2] x) => (float[2] y) <float s = {0.5}, int8 z = {0}, int8[2] w_quantized = {1, 2}>
{
  a, c = Split <num_outputs = 2> (x)
  cq = QuantizeLinear (c, s, z)
  cd = DequantizeLinear (cq, s, z)
  w_DequantizeLinear_Output = DequantizeLinear (w_quantized, s, z)
  b = Add (cd, w_DequantizeLinear_Output)
  bq = QuantizeLinear (b, s, z)
  bd = DequantizeLinear (bq, s, z)
  y_QuantizeInput = Relu (bd)
  yq = QuantizeLinear (y_QuantizeInput, s, z)
  y = DequantizeLinear (yq, s, z)
}
"""


def float_text(*, nodes: str, weight: str = "w") -> str:
    head = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y)'
    return f"{head} <float[2] {weight} = {{1, 2}}> {{ {nodes} }}"


def candidates(baseline: str, model: str | onnx.ModelProto) -> dict[str, list[str]]:
    """The names that each node yields, by the tensor that it makes."""
    index = ModelIndex.of(Model(parser.parse_model(model) if isinstance(model, str) else model))
    matcher = BaselineMatcher(GraphView(Model(parser.parse_model(baseline))), index.view)
    found = {entry: [value.name for value in matcher.of(index.qdq, entry)] for entry in index.qdq.nodes}
    return {entry.node.proto.output[0]: names for entry, names in found.items() if entry.is_quantize or names}


@pytest.mark.parametrize(
    ("baseline", "cq", "w", "bq", "yq"),
    [
        pytest.param(
            float_text(nodes="a, c = Split <num_outputs = 2> (x)  b = Add (c, w)  y = Relu (b)"),
            ["c"] * 5,  # what Add reads, what Split makes, the name, what the maker of `b` reads, the name again
            ["w"] * 4,  # what Add reads, what the maker of `b` reads, both names without their suffixes
            ["b"] * 5,
            ["y"] * 3,  # what Relu makes, the name behind the pair, the name before it without its suffix
            id="equal names",
        ),
        pytest.param(
            float_text(nodes="k, m = Split <num_outputs = 2> (x)  p = Add (m, v)  y = Relu (p)", weight="v"),
            ["m", "m"],
            ["v"],
            ["p", "p", "p"],  # and what the maker of `y` reads
            ["y"] * 3,
            id="other names",
        ),
        pytest.param(
            float_text(nodes="b, w = Split <num_outputs = 2> (x)  c = Add (w, v)  y = Relu (c)", weight="v"),
            ["w", "w", "c", "c"],
            ["v", "w", "w"],
            ["c", "c", "b", "c", "b"],
            ["y"] * 3,
            id="names that moved to other tensors",
        ),
        pytest.param(
            float_text(nodes="n = Abs (x)  c = Sin (n)  b = Mul (c, w)  y = Cos (b)"),
            ["c", "c"],
            ["w", "w"],
            ["b", "b"],
            ["y", "y"],
            id="names alone",
        ),
    ],
)
def test_structure_comes_before_names(baseline: str, cq: list, w: list, bq: list, yq: list) -> None:
    expected = {"cq": cq, "w_DequantizeLinear_Output": w, "bq": bq, "yq": yq}
    found = candidates(baseline, QUANTIZED)
    assert {name: found[name] for name in expected} == expected


SAME = float_text(nodes="a, c = Split <num_outputs = 2> (x)  b = Add (c, w)  y = Relu (b)")


def test_codes_that_have_the_name_of_the_float_weight_are_found_by_name_last() -> None:
    baseline = float_text(nodes="k = Abs (x)  b = Add (k, v)  w = Sin (b)  y = Relu (w)", weight="v")
    model = QUANTIZED.replace("w_quantized", "w").replace("w_DequantizeLinear_Output", "wd")
    assert candidates(baseline, model)["wd"] == ["v", "v", "w"]


@pytest.mark.parametrize(("node", "made"), [(1, "cq"), (2, "cd")])
def test_a_node_without_data_stands_for_what_is_read_behind_it(node: int, made: str) -> None:
    model = parser.parse_model(QUANTIZED)
    model.graph.node[node].input[0] = ""
    assert candidates(SAME, model)[made] == ["c", "c"]


def test_in_a_body_that_the_baseline_lacks_only_structure_finds_a_tensor() -> None:
    body = """
    <ir_version: 10, opset_import: ["": 21]>
    g (float[2] x, bool t) => (float[2] y) <float s = {0.5}, int8 z = {0}>
    {
      c = Neg (x)
      y = If (t) <
        then_branch = one () => (float[2] p) { q = QuantizeLinear (c, s, z)  p = DequantizeLinear (q, s, z) },
        else_branch = two () => (float[2] u) {
          c2 = Abs (x)
          v = QuantizeLinear (c2, s, z)
          u = DequantizeLinear (v, s, z)
        }
      >
    }
    """
    assert candidates(float_text(nodes="k = Neg (x)  c2 = Abs (k)  y = Relu (c2)"), body) == {"q": ["k"], "v": []}


@pytest.mark.parametrize("outputs", [(["a"], []), ([], ["a"]), ([], [])])
def test_nodes_without_outputs_are_no_calls(outputs: tuple[list[str], list[str]]) -> None:
    views = []
    for made in outputs:
        model = parser.parse_model(BASELINE)
        model.graph.node.append(helper.make_node("Neg", ["x"], [f"{name}_new" for name in made]))
        views.append(GraphView(Model(model)))
    hop = Hop("a", is_call=True)
    assert BaselineMatcher(*views).tap(Tap("out", (hop,))).hops == (hop,)


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
