"""What is proposed for a recipe: the formats of a mode, layers that are float already, and the message for nothing."""

import onnx
import pytest
from onnx import helper
from support.engine_models import Net
from support.refusals import refused
from support.small import make_model

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.existing_pairs import propose_for, refuse_nothing
from qdqtool.quantization.planning.options import Existing
from qdqtool.quantization.planning.placement import PlacementProposal, Reason, Selection, SkippedNode
from qdqtool.quantization.planning.placement.proposal import on_request
from qdqtool.quantization.planning.recipe import Recipe

TINY = "it has 64 input and 4 output channels, and no kernel gains below 16"


def proposed(model: onnx.ModelProto, **recipe: object) -> PlacementProposal:
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
    found = proposed(layers(quantized=False), quantize_mode=mode, target=target)
    name = {"fp8": "float8e4m3fn"}.get(mode, mode)
    assert [(each.slot.tensor, each.scheme.format.name) for each in found.slots] == [
        (tensor, name) for tensor in ("x", "w", "a", "v")
    ]
    assert found.activations == tuple(each for each in found.slots if each.slot.tensor in "xa")


@pytest.mark.parametrize(
    ("mode", "asked", "blocks"), [("int4", None, 32), ("int4", 64, 32), ("int4", 32, 32), ("int8-weight-only", None, 0)]
)
def test_a_mode_of_weights_has_pairs_on_weights_alone_in_the_blocks_that_are_asked_for(mode, asked, blocks):
    found = proposed(layers(quantized=False), quantize_mode=mode, block_size=asked)
    granularity = f"blocks of {blocks} on axis 0" if blocks else "per-axis 1"
    assert [(each.slot.tensor, str(each.scheme.granularity)) for each in found.slots] == [
        (tensor, granularity) for tensor in "wv"
    ]
    assert found.activations == ()


def test_beside_pairs_that_stay_a_layer_is_judged_as_in_the_whole_model():
    """Of the float layers alone, the tiny one would do; the model has large ones, left out by name or not."""
    two = Selection(nodes_to_exclude=("b.MatMul",))
    kept = proposed(layers(quantized=True), existing=Existing.KEEP, selection=two)
    assert pairs(kept) == {}
    for found in (kept, proposed(layers(quantized=False), selection=two)):
        assert ("y.MatMul", TINY) in [(each.node, each.reason.text.partition(";")[0]) for each in found.skipped]


@pytest.mark.parametrize("existing", Existing)
def test_of_a_float_model_nothing_is_kept(existing):
    assert proposed(layers(quantized=False), existing=existing) == proposed(layers(quantized=False))


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
    refuse_nothing(proposed(layers(quantized=False)).slots, nodes)


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_a_pattern_that_matches_nothing_is_refused_in_every_mode(mode):
    with pytest.raises(UsageError, match="--nodes-to-exclude 'nowhere' matches no node of the model"):
        proposed(layers(quantized=False), quantize_mode=mode, selection=Selection(nodes_to_exclude=("nowhere",)))


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_a_model_without_any_product_has_nothing_in_every_mode(mode):
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2,)}, {"y": (2,)}, {}, opset=21, ir_version=10)
    assert proposed(model, quantize_mode=mode) == PlacementProposal((), ())


def in_two_formats(mode: str, fallback: str, *names: str, **more: object) -> PlacementProposal:
    """Products by the names of their outputs, those that are named in the fallback format."""
    selection = Selection(fallback_nodes=frozenset(((), (name,)) for name in names), **more)
    return proposed(layers(quantized=False), quantize_mode=mode, fallback=fallback, selection=selection)


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
    both, alone = in_two_formats("int8", "fp8", "a", "b"), proposed(layers(quantized=False), quantize_mode="fp8")
    assert [(each.slot, each.scheme) for each in both.slots] == [(each.slot, each.scheme) for each in alone.slots]
    assert both.skipped == alone.skipped
    assert in_two_formats("int8", "fp8") == proposed(layers(quantized=False))
