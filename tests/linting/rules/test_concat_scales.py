"""QL304: which joined scales are reported, and that after its fix the range of every input still fits."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto as T
from support.corpus._case import graph_model, node, pair, tensor
from support.small import run

from qdqtool.linting import rules
from qdqtool.linting.findings import Extent, Finding
from qdqtool.linting.rules import Draft, Fault, RuleContext, UnfitError
from qdqtool.models import targets
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.model import Model

SCALES = st.sampled_from([2.0**-20, 0.01, 0.02, 0.1, 0.5, 3.0, 1000.0])


def located(model: onnx.ModelProto) -> tuple[RuleContext, list[tuple[Finding, Fault]]]:
    context = RuleContext(Model(model))
    return context, list(rules.get("QL304").locate(context, targets.get("tensorrt")))


def fixed(model: onnx.ModelProto) -> onnx.ModelProto:
    context, ((_, fault),) = located(model)
    draft = Draft(context, Namer(context.view))
    fault.fixes[0].write(draft)
    return apply_edits(context.model, draft.edits).proto


def joined(
    scales: Sequence[object], output: object, kinds: Sequence[int] | None = None, zeros: Sequence[object] | None = None
) -> onnx.ModelProto:
    """Pairs of x0, x1, ... [2, 4], joined on axis 1 by ``cat`` and quantized again; the last of the kinds is that."""
    kinds = kinds or [T.INT8] * (len(scales) + 1)
    zeros = zeros or [np.zeros(np.shape(each)) for each in (*scales, output)]
    nodes, constants = [], []
    for number, scale in enumerate([*scales, output]):
        last = number == len(scales)
        if last:
            nodes.append(node("Concat", [f"d{each}" for each in range(number)], "c", axis=1))
            nodes[-1].name = "cat"
        names = {"scale": f"s{number}", "zero_point": f"z{number}"}
        nodes += pair("c" if last else f"x{number}", "y" if last else f"d{number}", axis=0, **names)
        constants += [tensor(f"s{number}", scale), tensor(f"z{number}", zeros[number], kinds[number])]
    inputs = [(f"x{number}", T.FLOAT, [2, 4]) for number in range(len(scales))]
    return graph_model(nodes, inputs, [("y", T.FLOAT, [2, 4 * len(scales)])], constants)


@settings(max_examples=40)
@given(st.lists(SCALES, min_size=2, max_size=5).filter(lambda scales: len(set(scales)) > 1), SCALES, st.data())
def test_after_the_fix_every_range_fits_and_nothing_is_rounded_by_more_than_half_a_step(
    scales: list[float], output: float, data: st.DataObject
):
    model = fixed(joined(scales, output))
    largest = np.float32(max(*scales, output))
    fractions = st.lists(st.floats(-1, 1, width=32), min_size=8, max_size=8)
    feeds = {
        f"x{number}": np.reshape(data.draw(fractions), (2, 4)).astype(np.float32) * np.float32(127 * scale)
        for number, scale in enumerate(scales)
    }

    quantized = [each for each in model.graph.node if "Quantize" in each.op_type or "Dequantize" in each.op_type]
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    assert {stored[each.input[1]].item() for each in quantized} == {largest.item()}
    exact = np.concatenate(list(feeds.values()), axis=1)
    assert np.abs(run(model, feeds)[0] - exact).max() <= largest * 0.50001
    assert located(model)[1] == []


def test_the_finding_counts_the_inputs_with_another_scale_and_how_far_the_farthest_is_off():
    _, ((finding, _),) = located(joined([0.25, 0.25, 0.5, 2.0, 1.0], 0.25))

    assert (finding.node, finding.tensor) == ("cat", "d2")
    assert finding.message == "inputs of this Concat have scales 0.25 and 0.5"
    assert (finding.found, finding.expected) == ("0.5", "0.25")
    assert finding.extent == Extent("", 3, 3.0)


def test_several_scales_each_are_named_and_compared_one_by_one():
    _, ((finding, _),) = located(joined([[0.25, 0.5], [0.5, 2.0]], 0.25))

    assert finding.message == "inputs of this Concat have scales 's0' and 's1'"
    assert finding.extent == Extent("", 1, 2.0)


def test_scales_of_other_shapes_have_no_distance():
    _, ((finding, _),) = located(joined([0.25, 0.25, [0.5, 2.0], 0.5], 0.25))

    assert finding.message == "inputs of this Concat have scales 0.25 and 's2'"
    assert finding.extent == Extent("scales of other shapes", 2)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({}, True),
        ({"d2": "x0"}, False),
        ({"only": "d0"}, False),
        ({"behind": "Relu"}, False),
        ({"behind": "Relu too"}, False),
        ({"behind": "nothing"}, False),
        ({"behind": "a DQ, as its scale"}, False),
        ({"scale": "an input"}, False),
        ({"in front": "a Concat of floats"}, True),
        ({"operator": "Sum"}, False),
    ],
    ids=str,
)
def test_only_a_concat_between_codes_is_reported(change: dict[str, str], reported: bool):
    model = joined([0.1, 0.2, 0.1], 0.2)
    graph = model.graph
    (concat,) = [each for each in graph.node if each.op_type == "Concat"]
    if "d2" in change:
        concat.input[2] = change["d2"]
    if "only" in change:
        concat.input[:] = [change["only"]]
    behind = change.get("behind", "")
    if behind in {"Relu", "nothing"}:
        kept = [each for each in graph.node if "c" not in each.input and each.output[0] != "y"]
        del graph.node[:]
        graph.node.extend(kept)
        graph.output[0].name = "c" if behind == "nothing" else "y"
    if "Relu" in behind:
        graph.node.append(node("Relu", ["c"], "r" if behind == "Relu too" else "y"))
    if "DQ" in behind:
        graph.node.append(node("DequantizeLinear", ["w", "c"], "v"))
    if "scale" in change:
        graph.input.append(onnx.helper.make_tensor_value_info("s1", T.FLOAT, []))
        del graph.initializer[[each.name for each in graph.initializer].index("s1")]
    if "operator" in change:
        concat.op_type = change["operator"]
        del concat.attribute[:]
    if "in front" in change:
        graph.node.insert(0, node("Concat", ["x0", "x1"], "other", axis=0))

    assert bool(located(model)[1]) == reported


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            joined([0.1, 0.2], 0.2, [T.INT8, T.UINT8, T.INT8]),
            "some of the codes are stored, or have another type than the others",
        ),
        (
            joined([0.1, 0.2], 0.2, [T.INT8, T.INT8, T.UINT8]),
            "some of the codes are stored, or have another type than the others",
        ),
        (joined([0.1, 0.2], 0.2, zeros=[0, 0, 3]), "they have zero points"),
        (joined([0.1, 0.2], 0.2, zeros=[3, 3, 3]), "they have zero points"),
        (joined([0.1, [0.1, 0.2]], 0.2, zeros=[0, [0, 3], 0]), "they have zero points"),
        (joined([0.1, [0.1, 0.2]], 0.2), "they have several scales each"),
        (joined([[0.2, 0.1], [0.1, 0.2]], 0.2), "they have several scales each"),
        (joined([[0.2, 0.1], [0.1, 0.2]], [0.1, 0.2]), "they have several scales each"),
    ],
)
def test_what_one_scale_cannot_serve_is_left_with_the_reason(model: onnx.ModelProto, reason: str):
    with pytest.raises(UnfitError) as refused:
        fixed(model)
    assert str(refused.value) == reason


def test_stored_codes_are_left():
    model = joined([0.1, 0.2], 0.2)
    graph = model.graph
    graph.initializer.append(tensor("codes", np.ones((2, 4)), T.INT8))
    (reader,) = [each for each in graph.node if each.output[0] == "d1"]
    reader.input[0] = "codes"
    with pytest.raises(UnfitError, match="some of the codes are stored"):
        fixed(model)


def test_a_pair_without_zero_points_gets_one_of_0():
    model = joined([0.1, 0.2], 0.2, [T.UINT8] * 3)
    for each in model.graph.node:
        if len(each.input) == 3:
            del each.input[2]

    changed = fixed(model)

    zeros = {each.input[2] for each in changed.graph.node if len(each.input) == 3}
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in changed.graph.initializer}
    assert len(zeros) == 6
    assert {(stored[name].item(), str(stored[name].dtype)) for name in zeros} == {(0, "uint8")}


def test_scales_that_are_no_numbers_are_named():
    model = joined([0.1, 0.2], 0.2)
    for each in model.graph.initializer[:4:2]:
        each.CopyFrom(onnx.helper.make_tensor(each.name, T.STRING, [], [each.name.encode()]))
    _, ((finding, _),) = located(model)

    assert finding.message == "inputs of this Concat have scales 's0' and 's1'"
    assert finding.extent == Extent("scales of other shapes", 1)


def test_one_scale_that_is_no_number_is_named():
    model = joined([0.1, 0.2], 0.2)
    stored = model.graph.initializer[2]
    stored.CopyFrom(onnx.helper.make_tensor(stored.name, T.STRING, [], [b"0.2"]))
    _, ((finding, _),) = located(model)

    assert finding.message == "inputs of this Concat have scales 0.1 and 's1'"
    assert finding.extent == Extent("scales of other shapes", 1)


def test_codes_of_a_type_that_is_no_format_are_left():
    with pytest.raises(UnfitError, match="some of the codes are stored"):
        fixed(joined([0.1, 0.2], 0.2, [T.INT64] * 3))
