"""A model that is quantized already is refused, kept or quantized anew, as the user says."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.engine_models import Net
from support.paths import ROOT
from support.qdq import text_model
from support.refusals import refused
from support.small import conv_model, make_model, run

from qdqtool.engines.tensorrt.planned_types import quantized_share, work_of
from qdqtool.errors import GateError, UsageError
from qdqtool.jobs.calibrate import calibrate
from qdqtool.jobs.diff import diff_models
from qdqtool.jobs.matches import list_matches
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.metadata import CALIBRATION_KEY, PREPARATION_KEY
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.existing_pairs import (
    ResolvedModel,
    notes_beside,
    propose_for,
    refuse_nothing,
    settle_existing,
    settle_model,
)
from qdqtool.quantization.planning.options import Existing, HighPrecision, Preparation
from qdqtool.quantization.planning.placement import PlacementProposal, Reason, Selection, SkippedNode
from qdqtool.quantization.planning.placement.proposal import on_request
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.calibration_note import CalibrationNote, encode_note
from qdqtool.samples.request import FileData

SAMPLES = ROOT / "sample_models"


@pytest.fixture
def half(tmp_path: Path, data: Path) -> Path:
    """A model whose first layer is quantized, and whose second one the user excluded."""
    onnx.save(conv_model(), tmp_path / "float.onnx")
    recipe = Recipe(selection=Selection(nodes_to_exclude=("conv2",)))
    quantize_model(tmp_path / "float.onnx", data, tmp_path / "half.onnx", QuantizeOptions(recipe=recipe))
    return tmp_path / "half.onnx"


def again(path: Path, data: Path | FileData, existing: Existing, **recipe: object) -> QuantizeReport:
    options = QuantizeOptions(recipe=Recipe(existing=existing, **recipe))
    return quantize_model(path, data, path.with_name("again.onnx"), options)


def test_it_is_refused_with_the_ways_out(half: Path, data: Path) -> None:
    for job in (
        lambda: quantize_model(half, data, half.with_name("again.onnx")),
        lambda: calibrate(half, data),
        lambda: list_matches(half),
    ):
        with pytest.raises(UsageError, match="it has 3 Q/DQ nodes") as caught:
            job()
        assert caught.value.hint is not None
        for way in ("--existing keep", "--existing replace", "qdqtool strip"):
            assert way in caught.value.hint
    assert not half.with_name("again.onnx").exists()


@pytest.mark.parametrize("name", ["digits_cnn", "digits_transformer"])
@pytest.mark.parametrize("mode", ["int8", "int4", "int8-weight-only"])
def test_keeping_what_quantize_made_changes_no_byte(name: str, mode: str, tmp_path: Path) -> None:
    """In `digits_cnn` the last layer has too few channels, which is seen only beside the layers that have more."""
    data = FileData(path=SAMPLES / name / "calibration.npz", samples=8)
    made = tmp_path / "q.onnx"
    quantize_model(SAMPLES / name / "model.onnx", data, made, QuantizeOptions(recipe=Recipe(quantize_mode=mode)))
    report = again(made, data, Existing.KEEP, quantize_mode=mode)
    assert (report.quantized, report.existing, report.accuracy) == ((), "keep", None)
    assert made.with_name("again.onnx").read_bytes() == made.read_bytes()


def test_keeping_quantizes_what_is_float_and_touches_nothing_else(half: Path, data: Path) -> None:
    report = again(half, data, Existing.KEEP)
    assert [pair.tensor for pair in report.quantized] == ["r", "v"]
    assert not any(step.applied for step in report.preparation)
    assert report.corrected == ()
    changes = diff_models(half, half.with_name("again.onnx"))
    assert (changes.preserved, changes.same, len(changes.added)) == (True, 2, 2)
    whole = half.with_name("again.onnx").rename(half.with_name("whole.onnx"))
    assert again(whole, data, Existing.KEEP).quantized == ()


def test_keeping_gives_the_data_of_stored_codes_pairs_and_keeps_the_codes(tmp_path: Path, data: Path) -> None:
    onnx.save(conv_model(), tmp_path / "float.onnx")
    made = tmp_path / "q.onnx"
    quantize_model(
        tmp_path / "float.onnx", None, made, QuantizeOptions(recipe=Recipe(quantize_mode="int8-weight-only"))
    )
    report = again(made, data, Existing.KEEP)
    assert [(pair.tensor, pair.kind) for pair in report.quantized] == [("x", "activation"), ("r", "activation")]
    before, after = (ModelIndex.of(load_model(path)) for path in (made, made.with_name("again.onnx")))
    weights = [
        [
            index.constants.array(entry.data).tobytes()
            for entry in index.qdq.dequantizers()
            if index.qdq.is_weight(entry)
        ]
        for index in (before, after)
    ]
    assert len(weights[0]) == 2
    assert weights[0] == weights[1]


def test_faults_of_codes_that_stay_have_a_hint(half: Path, data: Path) -> None:
    model = onnx.load(half)
    (weight,) = [node for node in model.graph.node if node.op_type == "DequantizeLinear" and node.attribute]
    zero = onnx.numpy_helper.from_array(np.full(4, 3, np.int8), "wrong")
    model.graph.initializer.append(zero)
    weight.input[2:] = ["wrong"]
    onnx.save(model, half)
    with pytest.raises(GateError, match="QP102") as caught:
        again(half, data, Existing.KEEP)
    assert str(caught.value.hint).endswith("; `--existing replace` quantizes the whole model again")
    assert again(half, data, Existing.REPLACE).findings == ()


def test_keeping_leaves_float_what_is_excluded_again(half: Path, data: Path) -> None:
    again(half, data, Existing.KEEP, selection=Selection(nodes_to_exclude=("conv2",)))
    assert half.with_name("again.onnx").read_bytes() == half.read_bytes()


def test_replacing_quantizes_the_float_model(half: Path, data: Path) -> None:
    report = again(half, data, Existing.REPLACE)
    assert [pair.tensor for pair in report.quantized] == ["x", "w", "r", "v"]
    assert report.existing == "replace"
    x = {"x": np.load(data)["x"][:1]}
    found = run(onnx.load(half.with_name("again.onnx")), x)[0]
    assert np.abs(found - run(conv_model(), x)[0]).max() < 0.1 * np.abs(found).max()


def test_a_float_model_is_neither_kept_nor_replaced(data: Path, tmp_path: Path) -> None:
    onnx.save(conv_model(), tmp_path / "float.onnx")
    for existing in Existing:
        assert again(tmp_path / "float.onnx", data, existing).existing is None


def test_nothing_can_be_saved_of_a_run_that_there_was_not(half: Path, data: Path) -> None:
    again(half, data, Existing.KEEP)
    whole = half.with_name("again.onnx").rename(half.with_name("whole.onnx"))
    options = QuantizeOptions(recipe=Recipe(existing=Existing.KEEP), plan_file=half.with_name("plan.json"))
    with pytest.raises(UsageError, match="nothing is left to quantize"):
        quantize_model(whole, data, half.with_name("again.onnx"), options)


def test_the_notes_of_pairs_that_stay_stay_too(half: Path) -> None:
    model = load_model(half)
    model.proto.metadata_props.add(key=PREPARATION_KEY, value="old")
    new = {PREPARATION_KEY: "new", CALIBRATION_KEY: '{"random": false}', "other": "new"}
    assert notes_beside(model, new) == {"other": "new"}
    random = {**encode_note(CalibrationNote(method="max", samples=4, random=True, seed=0))}
    assert notes_beside(model, random) == random


def test_a_random_note_replaces_an_old_one_of_the_calibration_only(half: Path) -> None:
    model = load_model(half)
    del model.proto.metadata_props[:]
    model.proto.metadata_props.add(key=PREPARATION_KEY, value="old")
    model.proto.metadata_props.add(key=CALIBRATION_KEY, value="old")
    assert notes_beside(model, {PREPARATION_KEY: '{"random": true}', CALIBRATION_KEY: None}) == {}


def test_a_model_whose_pairs_stay_is_not_prepared(half: Path) -> None:
    source, recipe = load_model(half), Recipe(existing=Existing.KEEP)
    off = Preparation(equalize=False, smoothquant=None, bias_correction=False, awq=False, float_layer=False)
    assert settle_existing(source, recipe) == ResolvedModel(
        source, Recipe(existing=Existing.KEEP, preparation=off), Existing.KEEP
    )


def test_codes_that_a_caller_gives_cannot_be_replaced() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (int8[4,16] x, int8[4,16] z) => (float[4,16] y, float[4,16] u) <float s = {0.5}, float[16,16] w> {
        [dq] a = DequantizeLinear (x, s)
        y = Relu (a)
        [other] b = DequantizeLinear (z, s)
        u = Relu (b)
    }
    """
    with pytest.raises(UsageError) as caught:
        settle_existing(text_model(text), Recipe(existing=Existing.REPLACE))
    first, _, reason = caught.value.message.partition(" stays: ")
    assert first == "the Q/DQ of the model cannot be replaced: dq"
    assert reason
    assert caught.value.hint == "`--existing keep`, or another source model"


CALLED_TWICE = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[4,16] x) => (float[4,16] y) { h = my.Layer (x) y = my.Layer (h) }
<domain: "my", opset_import: ["": 21]>
Layer (a) => (b) { w = RandomNormal <shape = [16, 16]> () b = MatMul (a, w) }
"""


def test_a_function_that_is_called_twice_is_inlined_where_activations_are_quantized() -> None:
    source = text_model(CALLED_TWICE)
    settled = settle_model(source, Recipe())
    assert [(each.function, each.calls) for each in settled.inlined] == [("my::Layer", 2)]
    assert [node.op_type for node in settled.model.proto.graph.node].count("MatMul") == 2
    assert settle_model(source, Recipe(quantize_mode="int4")) == ResolvedModel(source, Recipe(quantize_mode="int4"))


def proposed(net: Net, output: str = "y") -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """The pairs that are added where the others stay, and the nodes that are skipped."""
    index = ModelIndex.of(Model(net.model({"x": (8, 64)}, output)))
    found = propose_for(index, Recipe(existing=Existing.KEEP))
    pairs = {each.slot.tensor: [use.node[0] for use in each.uses] for each in found.slots}
    return pairs, [(each.node, each.reason.text) for each in found.skipped]


def test_a_product_whose_result_a_pair_makes_a_graph_output_is_quantized_too() -> None:
    net = Net(21)
    net.op("MatMul", ["x", net.float_weight("w", (64, 64))], "t")
    net.activation("t")
    assert proposed(net, "t_d") == ({"x": ["t"], "w": ["t"]}, [])


@pytest.mark.parametrize("einsum", [False, True])
def test_a_layer_that_would_stay_float_without_the_pairs_stays_float_with_the_same_reason(einsum: bool) -> None:
    """One tiny product beside a large one; the large one is quantized, and both others are float.

    Where the other one is an Einsum, it has no two sides to compare, so that only the whole model has a larger one, and
    one tensor keeps the uses that gain.
    """
    net = Net(21)
    net.op("MatMul", [net.activation("x"), net.weight("w", (64, 64), axis=1)], "a")
    if einsum:
        net.op("MatMul", ["a", net.float_weight("u", (64, 4))], "tiny")
        net.op("Einsum", ["a", net.float_weight("v", (64, 8, 8))], "large", equation="ij,jkl->ikl")
    else:
        net.op("MatMul", ["a", net.float_weight("v", (64, 64))], "large")
        net.op("MatMul", ["large", net.float_weight("u", (64, 4))], "tiny")
    pairs, skipped = proposed(net, "large" if einsum else "tiny")
    assert pairs == {"a": ["large"], "v": ["large"]}
    assert [(node, text.partition(";")[0]) for node, text in skipped] == [
        ("a.MatMul", "it is quantized already"),
        ("tiny.MatMul", "it has 64 input and 4 output channels, and no kernel gains below 16"),
    ]


@pytest.mark.parametrize("asked", [HighPrecision.AUTO, HighPrecision.BF16])
def test_a_kept_model_gets_an_unquantized_part_in_half_precision_around_the_same_codes_and_scales(
    asked: HighPrecision, half: Path, data: Path
) -> None:
    """No scale is a value of half precision, so each pair is between Casts."""
    left = {"selection": Selection(nodes_to_exclude=("conv2",)), "high_precision": asked}
    report = again(half, data, Existing.KEEP, **left)
    made = half.with_name("again.onnx").rename(half.with_name("made.onnx"))
    before, after = onnx.load(half), onnx.load(made)
    assert report.quantized == ()
    assert report.calibration is None
    assert report.accuracy is not None
    assert report.accuracy.outputs[0].sqnr_db is not None
    assert report.accuracy.outputs[0].sqnr_db > 25
    assert stored_parameters(after) == stored_parameters(before)
    kind = TensorProto.BFLOAT16 if asked is HighPrecision.BF16 else TensorProto.FLOAT16
    index = ModelIndex.of(load_model(made))
    convs = [node.output() for node in index.view.nodes() if node.op_type == "Conv"]
    assert [index.types.elem_type(value) for value in convs if value is not None] == [kind, kind]
    assert report.quantized_share == quantized_share(work_of(load_model(half)))
    again(made, data, Existing.KEEP, **left)
    assert half.with_name("again.onnx").read_bytes() == made.read_bytes()


def stored_parameters(model: onnx.ModelProto) -> list[tuple[str, bytes]]:
    """Return codes, scales and zero points that Q and DQ read."""
    read = {name for node in model.graph.node if "Linear" in node.op_type for name in node.input}
    return [(each.name, each.raw_data) for each in model.graph.initializer if each.name in read]


TINY = "it has 64 input and 4 output channels, and no kernel gains below 16"


def proposal_of(model: onnx.ModelProto, **recipe: object) -> PlacementProposal:
    return propose_for(ModelIndex.of(Model(model)), Recipe(**recipe))


def pairs(found: PlacementProposal) -> dict[str, list[str]]:
    return {each.slot.tensor: [use.node[0] for use in each.slot.uses or ()] for each in found.slots}


def layers(*, quantized: bool) -> onnx.ModelProto:
    """Three products: a large one that may have pairs, another large one, and a tiny one."""
    net = Net(21)
    x = net.activation("x") if quantized else "x"
    w = net.weight("w", (64, 64), axis=1) if quantized else net.float_weight("w", (64, 64))
    net.op("MatMul", [x, w], "a")
    net.op("MatMul", ["a", net.float_weight("v", (64, 64))], "b")
    net.op("MatMul", ["b", net.float_weight("u", (64, 4))], "y")
    return net.model({"x": (8, 64)})


@pytest.mark.parametrize("mode", ["int8", "fp8", "int16"])
def test_activations_and_weights_have_the_formats_of_the_mode(mode):
    target = "ort-cpu" if mode == "int16" else "tensorrt"
    found = proposal_of(layers(quantized=False), quantize_mode=mode, target=target)
    name = {"fp8": "float8e4m3fn"}.get(mode, mode)
    assert [(each.slot.tensor, each.scheme.format.name) for each in found.slots] == [
        (tensor, name) for tensor in ("x", "w", "a", "v")
    ]
    assert found.activations == tuple(each for each in found.slots if each.slot.tensor in "xa")


@pytest.mark.parametrize(
    ("mode", "asked", "blocks"), [("int4", None, 32), ("int4", 64, 32), ("int4", 32, 32), ("int8-weight-only", None, 0)]
)
def test_a_mode_of_weights_has_pairs_on_weights_alone_in_the_blocks_that_are_asked_for(mode, asked, blocks):
    found = proposal_of(layers(quantized=False), quantize_mode=mode, block_size=asked)
    granularity = f"blocks of {blocks} on axis 0" if blocks else "per-axis 1"
    assert [(each.slot.tensor, str(each.scheme.granularity)) for each in found.slots] == [
        (tensor, granularity) for tensor in "wv"
    ]
    assert found.activations == ()


def test_beside_pairs_that_stay_a_layer_is_judged_as_in_the_whole_model():
    """Of the float layers alone, the tiny one would do; the model has large ones, left out by name or not."""
    two = Selection(nodes_to_exclude=("b.MatMul",))
    kept = proposal_of(layers(quantized=True), existing=Existing.KEEP, selection=two)
    assert pairs(kept) == {}
    for found in (kept, proposal_of(layers(quantized=False), selection=two)):
        assert ("y.MatMul", TINY) in [(each.node, each.reason.text.partition(";")[0]) for each in found.skipped]


@pytest.mark.parametrize("existing", Existing)
def test_of_a_float_model_nothing_is_kept(existing):
    assert proposal_of(layers(quantized=False), existing=existing) == proposal_of(layers(quantized=False))


def skipped(*reasons: Reason) -> list[SkippedNode]:
    return [SkippedNode(f"n{number}", "Op", "", reason) for number, reason in enumerate(reasons)]


FLOAT, MASK, ASK = Reason("float-operator", "why"), Reason("attention-mask", "mask"), on_request("no-gain", "gains not")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "nothing can be quantized: no operator of the model gains from quantization"),
        (skipped(FLOAT), "nothing is left to quantize: 'n0' (Op): why"),
        (skipped(FLOAT, MASK), "nothing is left to quantize: 'n0' (Op): why (and 1 more node)"),
        (skipped(ASK, ASK, MASK, FLOAT), "nothing is left to quantize: 'n2' (Op): mask (and 3 more nodes)"),
        (skipped(ASK), f"nothing is left to quantize: 'n0' (Op): {ASK.text}"),
    ],
)
def test_nothing_to_quantize_is_an_error_with_the_first_reason_of_an_operator_that_could_gain(nodes, message):
    with refused(UsageError, message):
        refuse_nothing([], nodes)
    refuse_nothing(proposal_of(layers(quantized=False)).slots, nodes)


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_a_pattern_that_matches_nothing_is_refused_in_every_mode(mode):
    with pytest.raises(UsageError, match="--nodes-to-exclude 'nowhere' matches no node of the model"):
        proposal_of(layers(quantized=False), quantize_mode=mode, selection=Selection(nodes_to_exclude=("nowhere",)))


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_a_model_without_any_product_has_nothing_in_every_mode(mode):
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2,)}, {"y": (2,)}, {}, opset=21, ir_version=10)
    assert proposal_of(model, quantize_mode=mode) == PlacementProposal((), ())


def in_two_formats(mode: str, fallback: str, *names: str, **more: object) -> PlacementProposal:
    """Products by the names of their outputs, those that are named in the fallback format."""
    selection = Selection(fallback_nodes=frozenset(((), (name,)) for name in names), **more)
    return proposal_of(layers(quantized=False), quantize_mode=mode, fallback=fallback, selection=selection)


@pytest.mark.parametrize(
    ("mode", "fallback", "formats"),
    [
        ("int8", "fp8", {"x": "int8", "w": "int8", "a": "float8e4m3fn", "v": "float8e4m3fn"}),
        ("fp8", "int8", {"x": "float8e4m3fn", "w": "float8e4m3fn", "a": "int8", "v": "int8"}),
        ("int4", "int8", {"w": "int4", "v": "int8"}),
        ("nvfp4", "fp8", {"w": "float4e2m1", "v": "float8e4m3fn"}),
    ],
)
def test_nodes_in_the_fallback_format_have_it_on_every_operand_and_say_why(mode, fallback, formats):
    found = in_two_formats(mode, fallback, "b")
    assert {each.slot.tensor: each.scheme.format.name for each in found.slots} == formats
    assert [each.slot.tensor for each in found.slots] == list(formats)
    secondary = {each.slot.tensor for each in found.slots if "in the secondary format" in each.reason}
    assert secondary == {tensor for tensor in formats if tensor in "av"}
    assert str(next(each for each in found.slots if each.slot.tensor == "v").scheme.granularity) == "per-axis 1"
    assert [node.node for node in found.skipped if node.reason.code in ("accuracy", "fallback")] == []


def test_nodes_in_float_stay_there_beside_those_in_the_fallback_format():
    found = in_two_formats("int8", "fp8", "b", float_nodes=frozenset({((), ("a",))}))
    assert {each.slot.tensor: each.scheme.format.name for each in found.slots} == dict.fromkeys("av", "float8e4m3fn")
    assert [node.reason.code for node in found.skipped] == ["accuracy", "few-channels"]


def test_every_layer_may_have_the_fallback_format_and_none_is_what_the_mode_proposes():
    both, alone = in_two_formats("int8", "fp8", "a", "b"), proposal_of(layers(quantized=False), quantize_mode="fp8")
    assert [(each.slot, each.scheme) for each in both.slots] == [(each.slot, each.scheme) for each in alone.slots]
    assert both.skipped == alone.skipped
    assert in_two_formats("int8", "fp8") == proposal_of(layers(quantized=False))


def test_a_refusal_names_the_reason_with_a_command_first():
    plain, useful = (Reason("some", text) for text in ("it is small", "`qdqtool normalize` writes it anew"))
    skipped = [SkippedNode(node, "Op", "", reason) for node, reason in (("a", plain), ("b", useful))]
    with pytest.raises(UsageError, match=r"'b' \(Op\): `qdqtool normalize` writes it anew \(and 1 more node\)"):
        refuse_nothing([], skipped)
