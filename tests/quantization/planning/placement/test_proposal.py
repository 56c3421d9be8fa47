"""A proposed pair: what it has unless placement says otherwise."""

import re

import pytest
from support.placed import proposal
from support.small import conv_model

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Slot, UseRef
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.planning.placement import PatternMatch, PlacementProposal, ProposedSlot, Selection

SCHEME = QuantScheme(formats.get("int8"), PerTensor())


def test_a_pair_has_no_bound_no_group_and_no_peak_by_default():
    uses = (UseRef((), ("y",), 0),)
    found = ProposedSlot(Slot((), "x", uses), "activation", SCHEME, "input of MatMul")
    assert (found.bound, found.peaked, found.range_group, found.uses) == (None, False, None, uses)


def test_ranges_are_needed_for_activations_alone():
    slots = tuple(
        ProposedSlot(Slot((), name, ()), "weight" if name in "wv" else "activation", SCHEME, "") for name in "xwav"
    )
    assert [each.slot.tensor for each in PlacementProposal(slots, ()).activations] == ["x", "a"]


def readers(selection):
    return {ref.node[0] for slot in proposal(conv_model(), selection).slots for ref in slot.slot.uses}


def reasons(selection):
    return {node.node: node.reason.text for node in proposal(conv_model(), selection).skipped}


def test_everything_is_selected_by_default():
    assert readers(Selection()) == {"c", "y"}


@pytest.mark.parametrize(
    ("selection", "left", "reason"),
    [
        (Selection(nodes_to_exclude=("conv1",)), {"y"}, "excluded by --nodes-to-exclude 'conv1'"),
        (Selection(nodes_to_exclude=("conv[1]", "relu*")), {"y"}, "excluded by --nodes-to-exclude 'conv[1]'"),
        (Selection(nodes_to_exclude=("c",)), {"y"}, "excluded by --nodes-to-exclude 'c'"),
        (Selection(nodes_to_quantize=("*2",)), {"y"}, "not among --nodes-to-quantize"),
        (Selection(op_types_to_exclude=("Co*",)), set(), "excluded by --op-types-to-exclude 'Co*'"),
        (Selection(op_types_to_quantize=("Relu",)), set(), "not among --op-types-to-quantize"),
    ],
)
def test_what_is_left_out_says_why(selection, left, reason):
    assert readers(selection) == left
    assert reasons(selection)["conv1"] == reason


def test_excluding_wins_over_including():
    selection = Selection(nodes_to_quantize=("conv*",), nodes_to_exclude=("conv1",))
    assert readers(selection) == {"y"}


MATCHES = "`--list-matches` lists every node that would be quantized"


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(nodes_to_exclude=("con1",)), "--nodes-to-exclude 'con1' matches no node of the model; did you mean"),
        (Selection(nodes_to_quantize=("CONV1",)), "--nodes-to-quantize 'CONV1' matches no node"),
        (Selection(op_types_to_exclude=("conv",)), "'conv' matches no operator of the model; did you mean 'Conv'?"),
        (Selection(op_types_to_quantize=("Gemm",)), "--op-types-to-quantize 'Gemm' matches no operator"),
    ],
)
def test_a_pattern_that_matches_nothing_is_an_error(selection, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        proposal(conv_model(), selection)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("nodes_to_exclude", f"leave --nodes-to-exclude out, and {MATCHES}"),
        ("nodes_to_quantize", f"leave --nodes-to-quantize out, and {MATCHES}"),
        ("op_types_to_exclude", "it has Conv, Relu"),
        ("op_types_to_quantize", "it has Conv, Relu"),
    ],
)
def test_a_pattern_that_matches_nothing_says_where_to_look(option, hint):
    with pytest.raises(UsageError) as error:
        proposal(conv_model(), Selection(**{option: ("far",)}))
    assert error.value.hint == hint


def test_matches_lists_what_each_pattern_selects():
    selection = Selection(nodes_to_exclude=("conv*",), op_types_to_exclude=("Relu",))
    assert selection.matches(GraphView(Model(conv_model()))) == (
        PatternMatch("--nodes-to-exclude", "conv*", ("conv1", "conv2"), 2),
        PatternMatch("--op-types-to-exclude", "Relu", ("relu1",), 0),
    )


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("/encodr/*", "/encoder/*"),
        ("/encoder/layer2/*", "/encoder/layer1/*"),
        ("/encoder/layer1/Conv", "/encoder/layer1/conv"),
    ],
)
def test_a_typo_in_a_path_is_told_from_the_levels_of_the_names(pattern, near):
    model = conv_model()
    for node in model.graph.node:
        node.name = f"/encoder/layer1/{node.name.rstrip('12')}"
    model.graph.node[2].name = "/decoder/other"
    with pytest.raises(UsageError, match=f"did you mean '{re.escape(near)}'"):
        Selection(nodes_to_exclude=(pattern,)).matches(GraphView(Model(model)))


def test_a_typo_is_found_among_hundreds_of_names_that_begin_alike():
    model = conv_model()
    relu = model.graph.node[1]
    for number in range(300):
        model.graph.node.add(op_type="Relu", name=f"aaaa{number:040}", input=["x"], output=[f"aaaa{number:041}"])
    relu.name = "abaa-bcdefghij"
    with pytest.raises(UsageError, match="did you mean 'abaa-bcdefghij'"):
        Selection(nodes_to_exclude=("aaaa-bcdefghij",)).matches(GraphView(Model(model)))
