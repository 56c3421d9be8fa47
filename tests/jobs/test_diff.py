"""The diff job: what is lost, changed, moved and new, whatever things are called."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.qdq import LOOP_AND_BRANCHES, text_model
from support.renamed import renamed, reordered

from qdqtool.jobs.diff import diff_models
from qdqtool.models.diff.report import DiffReport
from qdqtool.models.graph.model import Model
from qdqtool.reports.terminal import make_console
from qdqtool.reports.text import diff as text_report

HEADER = '<ir_version: 10, opset_import: ["": 21]>\n'

NETWORK = """agraph (float[1,4] x) => (float[1,3] y)
<float s = {0.5}, int8 z = {0}, float t = {0.25}, float[3] ws = {0.1, 0.2, 0.3}, int8[3] wz = {0,0,0},
 int8[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}> {
    r = Relu (x)
    q = QuantizeLinear (r, s, z)
    d = DequantizeLinear (q, s, z)
    wd = DequantizeLinear <axis = 1> (w, ws, wz)
    [mm] m = MatMul (d, wd)
    n = Neg (m)
    q2 = QuantizeLinear (n, t, z)
    y = DequantizeLinear (q2, t, z)
}"""


def parse(text: str) -> Model:
    return text_model(HEADER + text)


def edited(*replacements: tuple[str, str]) -> Model:
    text = NETWORK
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return parse(text)


def compare(*replacements: tuple[str, str]) -> DiffReport:
    return diff_models(parse(NETWORK), edited(*replacements))


def is_clean(report: DiffReport) -> bool:
    differences = report.removed or report.changed or report.moved or report.added or report.disturbed
    return report.preserved == (report.pairs_before > 0) and not differences


def test_a_pair_that_one_of_its_readers_has_lost_is_not_counted_as_equal():
    shared = (
        "agraph (float[4] x) => (float[4] y, float[4] z) <float s = {0.5}, int8 o = {0}> {"
        " q = QuantizeLinear (x, s, o) d = DequantizeLinear (q, s, o) [a] y = Neg (d) [b] z = Abs (%s) }"
    )
    report = diff_models(parse(shared % "d"), parse(shared % "x"))

    assert [pair.readers for pair in report.removed] == [("b",)]
    assert (report.pairs_before, report.pairs_after, report.same) == (1, 1, 0)


def test_a_model_is_equal_to_itself():
    report = diff_models(parse(NETWORK), parse(NETWORK))

    assert is_clean(report)
    assert (report.pairs_before, report.pairs_after, report.same, report.unmatched) == (3, 3, 3, 0)


@pytest.mark.parametrize("change", [renamed, reordered, lambda proto: reordered(renamed(proto))])
def test_names_and_order_make_no_difference(change):
    model = parse(NETWORK)

    assert is_clean(diff_models(model, Model(change(model.proto))))
    assert is_clean(diff_models(Model(change(model.proto)), model))


def test_names_that_now_mean_another_tensor_make_no_difference():
    """An exporter that counts gives an old name to something else."""
    swapped = edited(
        ("r = Relu", "n = Relu"), ("(r, s, z)", "(n, s, z)"), ("n = Neg", "r = Neg"), ("(n, t, z)", "(r, t, z)")
    )

    assert is_clean(diff_models(parse(NETWORK), swapped))


def test_bodies_and_functions_are_compared():
    model = text_model(LOOP_AND_BRANCHES)
    assert is_clean(diff_models(model, Model(renamed(model.proto))))

    other = text_model(
        LOOP_AND_BRANCHES.replace("fs = Constant <value = float {0.25}>", "fs = Constant <value = float {0.75}>")
    )
    report = diff_models(model, other)

    assert [(each.pair.graph, each.changes[0].ratio) for each in report.changed] == [("my::Twice", (3.0, 3.0))]


def test_a_body_that_lost_its_pair_is_named():
    text = LOOP_AND_BRANCHES.replace("ye = DequantizeLinear (eq, s, zp)", "ye = Identity (neg)").replace(
        "eq = QuantizeLinear (neg, s, zp)", ""
    )
    (lost,) = diff_models(text_model(LOOP_AND_BRANCHES), text_model(text)).removed

    assert (lost.tensor, lost.graph) == ("neg", "y.else_branch")


def test_a_lost_pair_is_named_with_its_readers_and_a_new_one_preserves():
    without = edited(("MatMul (d, wd)", "MatMul (r, wd)"))
    report = diff_models(parse(NETWORK), without)
    (lost,) = report.removed

    assert not report.preserved
    assert (lost.tensor, lost.form, lost.type, lost.granularity) == ("r", "pair", "int8", "per-tensor")
    assert (lost.scale_min, lost.scale_max, lost.readers) == (0.5, 0.5, ("mm[0]",))
    assert not report.added
    added = diff_models(without, parse(NETWORK))
    assert added.preserved
    assert [each.tensor for each in added.added] == ["r"]


def test_a_weight_that_an_optimizer_folded_to_float_is_lost():
    folded = parse(NETWORK)
    weight = np.arange(1, 13, dtype=np.int8).reshape(4, 3) * np.array([0.1, 0.2, 0.3], np.float32)
    kept = [node for node in folded.proto.graph.node if node.output[0] != "wd"]
    del folded.proto.graph.node[:]
    folded.proto.graph.node.extend(kept)
    folded.proto.graph.initializer.append(numpy_helper.from_array(weight.astype(np.float32), "wd"))
    (lost,) = diff_models(parse(NETWORK), folded).removed

    assert (lost.tensor, lost.form, lost.granularity) == ("w", "weight", "per-axis")


def with_second_pair(scale: str) -> DiffReport:
    """A pair with this scale behind the one in front of the product."""
    second = f"q3 = QuantizeLinear (d, {scale}, z) d3 = DequantizeLinear (q3, {scale}, z) wd = Deq"
    return compare(("MatMul (d, wd)", "MatMul (d3, wd)"), ("wd = Deq", second))


def test_a_second_pair_in_front_of_the_first_is_added_and_changes_nothing_with_the_same_constants():
    report = with_second_pair("t")

    assert not report.preserved, "0.25 clips what 0.5 did not"
    assert [each.scale_min for each in report.added] == [0.25]
    ((reader, pairs),) = [(each.reader, each.after) for each in report.disturbed]
    assert (reader, [pair.scale_min for pair in pairs or ()]) == ("mm[0]", [0.25, 0.5])
    assert with_second_pair("s").preserved


def test_a_first_model_without_pairs_gives_nothing_to_judge(capsys: pytest.CaptureFixture[str]):
    """As with the arguments swapped."""
    floats = parse("agraph (float[1,4] x) => (float[1,4] y) { y = Relu (x) }")
    report = diff_models(floats, parse(NETWORK))
    text_report.render(report, make_console())

    assert not report.preserved
    assert not diff_models(floats, floats).preserved
    assert (
        "nothing to preserve: the first model has no quantized tensor: are the models swapped?"
        in capsys.readouterr().out
    )


BEHIND = """agraph (float[1,2,2,2] x) => (float[1,OUT] y)
<float s = {0.5}, int8 z = {0}, float[2,2,1,1] w = {1,2,3,4}, int64[4] n = {1,2,2,2}> {
    BODY
}"""


def chain(body: str) -> Model:
    return parse(BEHIND.replace("OUT", "2,2,2").replace("BODY", body))


MOVING = {
    "Transpose": "b = Transpose <perm = [0,1,3,2]> (a)",
    "Reshape": "b = Reshape (a, n)",
    "MaxPool": "b = MaxPool <kernel_shape = [1,1]> (a)",
    "Relu": "b = Relu (a)",
}
COMPUTING = {
    "Conv": "b = Conv (a, w)",
    "Sigmoid": "b = Sigmoid (a)",
    "AveragePool": "b = AveragePool <kernel_shape = [1,1]> (a)",
    "Add": "b = Add (a, a)",
}


@pytest.mark.parametrize("op_type", [*MOVING, *COMPUTING])
def test_a_pair_moves_across_what_moves_values_only(op_type: str):
    """Across a Conv the input is float and the output rounded: 14 dB were lost."""
    node = {**MOVING, **COMPUTING}[op_type]
    front = f"q = QuantizeLinear (x, s, z) a = DequantizeLinear (q, s, z) {node} y = Neg (b)"
    behind = f"a = Identity (x) {node} q = QuantizeLinear (b, s, z) d = DequantizeLinear (q, s, z) y = Neg (d)"
    for before, after in ((front, behind), (behind, front)):
        report = diff_models(chain(before), chain(after))
        assert len(report.moved) == 1
        assert report.preserved == (op_type in MOVING)
        assert bool(report.disturbed) == (op_type in COMPUTING)


def test_a_pair_that_moves_past_one_of_two_readers_leaves_the_other_float():
    before = "q = QuantizeLinear (x, s, z) a = DequantizeLinear (q, s, z) b = Transpose (a) c = Neg (b) y = Add (a, c)"
    after = "b = Transpose (x) q = QuantizeLinear (b, s, z) a = DequantizeLinear (q, s, z) c = Neg (a) y = Add (x, c)"
    report = diff_models(chain(before), chain(after))

    assert not report.preserved
    assert "Add -> y[0]" in {each.reader for each in report.disturbed}


def test_an_added_pair_behind_a_transpose_quantizes_again():
    before = "q = QuantizeLinear (x, s, z) a = DequantizeLinear (q, s, z) b = Transpose (a) y = Neg (b)"
    after = before.replace("y = Neg (b)", "p = QuantizeLinear (b, t, z) d = DequantizeLinear (p, t, z) y = Neg (d)")
    report = diff_models(
        chain(before),
        parse(BEHIND.replace("s = {0.5}", "s = {0.5}, float t = {5}").replace("OUT", "2,2,2").replace("BODY", after)),
    )

    assert len(report.added) == 1
    assert not report.preserved


def test_scales_of_an_axis_do_not_move_across_a_transpose():
    """The axis has the same number, and means other channels."""
    text = BEHIND.replace("s = {0.5}", "unused = {1}, float[2] s = {0.5, 1}").replace(
        "z = {0}", "unused_z = {0}, int8[2] z = {0,0}"
    )
    pair = "q = QuantizeLinear <axis = 2> (IN, s, z) d = DequantizeLinear <axis = 2> (q, s, z)"
    move = "b = Transpose <perm = [0,1,3,2]> (IN)"
    front = f"{pair.replace('IN', 'x')} {move.replace('IN', 'd')} y = Neg (b)"
    behind = f"{move.replace('IN', 'x')} {pair.replace('IN', 'b')} y = Neg (d)"
    models = [parse(text.replace("OUT", "2,2,2").replace("BODY", body)) for body in (front, behind)]

    assert not diff_models(*models).preserved
    assert diff_models(models[0], models[0]).preserved


@pytest.mark.parametrize(
    ("replacement", "what", "ratio"),
    [
        (("s = {0.5}", "s = {1.25}"), "scale", (2.5, 2.5)),
        (("ws = {0.1, 0.2, 0.3}", "ws = {0.1, 0.4, 0.1}"), "scale", (1 / 3, 2.0)),
        (("wz = {0,0,0}", "wz = {0,1,0}"), "zero_point", None),
        (("{1,2,3,4,", "{1,2,7,4,"), "codes", None),
    ],
)
def test_changed_constants(replacement: tuple[str, str], what: str, ratio: tuple[float, float] | None):
    report = compare(replacement)
    ((change,),) = [each.changes for each in report.changed]

    assert not report.preserved
    assert change.what == what
    assert change.ratio == (pytest.approx(ratio) if ratio else None)


def test_changed_types_axes_and_granularity():
    report = compare(
        ("int8 z = {0}", "uint8 z = {0}"),
        ("<axis = 1> (w, ws, wz)", "(w, t, z8)"),
        ("float t = {0.25}", "float t = {0.25}, int8 z8 = {0}"),
    )

    assert sorted({change.what for each in report.changed for change in each.changes}) == [
        "granularity",
        "scale",
        "type",
    ]


def test_a_changed_axis():
    square = NETWORK.replace("int8[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}", "int8[3,3] w = {1,2,3,4,5,6,7,8,9}").replace(
        "float[1,4]", "float[1,3]"
    )
    report = diff_models(parse(square), parse(square.replace("axis = 1", "axis = 0")))

    assert [(change.what, change.before, change.after) for change in report.changed[0].changes] == [("axis", "1", "0")]
    assert is_clean(diff_models(parse(square), parse(square.replace("axis = 1", "axis = -1"))))


def test_a_changed_block_size():
    def blocked(size: int) -> Model:
        scales = helper.make_tensor("ws", TensorProto.FLOAT, [4 // size, 2], [0.5] * (8 // size))
        model = parse(f"""agraph (float[1,4] x) => (float[1,2] y) <int8[4,2] w = {{1,2,3,4,5,6,7,8}}> {{
            wd = DequantizeLinear <axis = 0, block_size = {size}> (w, ws)
            y = MatMul (x, wd)
        }}""")
        model.proto.graph.initializer.append(scales)
        return model

    (each,) = diff_models(blocked(2), blocked(4)).changed

    assert ("block_size", "2", "4") in [(change.what, change.before, change.after) for change in each.changes]


def test_a_pair_on_the_other_side_of_an_operator_has_moved():
    report = compare(
        ("r = Relu (x)", ""),
        ("QuantizeLinear (r, s, z)", "QuantizeLinear (x, s, z)"),
        ("MatMul (d, wd)", "MatMul (r, wd)"),
        ("wd = Deq", "r = Relu (d) wd = Deq"),
    )
    ((before, after),) = [(each.before, each.after) for each in report.moved]

    assert report.preserved
    assert (before.tensor, after.tensor, after.readers) == ("r", "x", ("Relu -> r",))
    assert not report.removed
    assert not report.added


@pytest.mark.parametrize("values", [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13]])
def test_codes_behind_a_dq_equal_floats_behind_q_and_dq(values: list[int]):
    pair = edited(
        (
            "wd = DequantizeLinear <axis = 1> (w, ws, wz)",
            "wq = QuantizeLinear <axis = 1> (w, ws, wz) wd = DequantizeLinear <axis = 1> (wq, ws, wz)",
        )
    )
    scales = np.array([0.1, 0.2, 0.3], np.float32)
    weight = (np.array(values).reshape(4, 3) * scales).astype(np.float32)
    for tensor in pair.proto.graph.initializer:
        if tensor.name == "w":
            tensor.CopyFrom(numpy_helper.from_array(weight, "w"))
    report = diff_models(parse(NETWORK), pair)

    assert is_clean(report) == (values[-1] == 12)
    if values[-1] == 13:
        assert [change.after for change in report.changed[0].changes] == ["1 of them differ"]


def test_opset_and_ir_changes_are_told_and_preserve():
    other = parse(NETWORK)
    other.proto.ir_version = 11
    other.proto.opset_import[0].version = 23
    report = diff_models(parse(NETWORK), other)

    assert report.preserved
    assert [(each.what, each.before, each.after) for each in report.versions] == [
        ("IR version", "10", "11"),
        ("opset ai.onnx", "21", "23"),
    ]


def test_a_pair_in_front_of_a_node_that_is_gone_is_lost():
    report = compare(("n = Neg (m)", ""), ("(n, t, z)", "(m, t, z)"))

    assert report.unmatched == 1
    assert report.preserved, "the pairs themselves are all there"


def test_blocks_that_look_alike_are_told_apart_by_where_they_are():
    """Four equal layers in a row, renamed: a scale that changes in the third is found there."""

    def stack(scales: list[float]) -> Model:
        names = [f"s{index} = {{{scale}}}" for index, scale in enumerate(scales)]
        constants = ", ".join(f"float {name}" for name in names)
        layers = "".join(
            f"q{i} = QuantizeLinear (h{i}, s{i}, z) d{i} = DequantizeLinear (q{i}, s{i}, z) h{i + 1} = Relu (d{i}) "
            for i in range(len(scales))
        )
        return parse(f"agraph (float[2] h0) => (float[2] h4) <int8 z = {{0}}, {constants}> {{ {layers} }}")

    report = diff_models(stack([1, 2, 3, 4]), Model(renamed(stack([1, 2, 9, 4]).proto)))

    assert [(each.pair.tensor, each.changes[0].ratio) for each in report.changed] == [("h2", (3.0, 3.0))]


def test_text_names_what_vanished(capsys: pytest.CaptureFixture[str]):
    text_report.render(compare(("MatMul (d, wd)", "MatMul (r, wd)"), ("t = {0.25}", "t = {0.5}")), make_console())
    out = capsys.readouterr().out

    assert "  - r: int8 per-tensor pair, scale 0.5, read by mm[0]\n" in out
    assert "  ~ n (read by output y): scale 0.25 -> 0.5 (x 2)\n" in out
    assert (
        out.splitlines()[-1] == "3 quantized tensors before, 2 after, 1 equal, 1 removed, 1 changed, 0 moved, 0 added"
    )


@pytest.mark.real
def test_real_models_are_equal_to_themselves_renamed(real_model: Path):
    proto = onnx.load(real_model, load_external_data=False)

    assert is_clean(diff_models(real_model, Model(renamed(proto), real_model)))


TWINS = """agraph (float[1,2] x) => (float[1,2] y)
<float s = {0.5}, float t = {0.25}, int8 z = {0}, float[2,2] v = {1,2,3,4}, float[2,2] w = {5,6,7,8}> {
    p = QuantizeLinear (x, s, z)
    d = DequantizeLinear (p, s, z)
    q = QuantizeLinear (x, t, z)
    e = DequantizeLinear (q, t, z)
    FIRST
    SECOND
    y = SUM
}"""
"""Two layers of one input that differ only in the values of their weights."""


def twins(first: str, second: str, both: str) -> Model:
    return parse(TWINS.replace("FIRST", first).replace("SECOND", second).replace("SUM", both))


@pytest.mark.parametrize(
    ("after", "preserved"),
    [
        (("b = MatMul (e, v)", "a = MatMul (d, w)", "Add (b, a)"), False),
        (("f = MatMul (e, v)", "g = MatMul (d, w)", "Add (g, f)"), False),
        (("b = MatMul (d, v)", "a = MatMul (e, w)", "Add (b, a)"), True),
        (("f = MatMul (d, v)", "g = MatMul (e, w)", "Add (g, f)"), True),
    ],
    ids=["exchanged scales and names", "exchanged scales and operands", "exchanged names", "exchanged operands"],
)
def test_layers_whose_weights_differ_by_value_alone_are_told_apart(after: tuple[str, str, str], preserved: bool):
    report = diff_models(twins("a = MatMul (d, v)", "b = MatMul (e, w)", "Add (a, b)"), twins(*after))
    assert (report.preserved, len(report.changed)) == (preserved, 0 if preserved else 2)
