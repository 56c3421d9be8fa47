"""The comparison place by place: what is removed, added, moved and disturbed, on graphs of a few nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.qdq import text_model

from qdqtool.models.diff.comparison import Comparison, align
from qdqtool.models.diff.matching import Side
from qdqtool.models.diff.parameters import Change
from qdqtool.models.diff.report import DiffReport, DisturbedReader, PairInfo

CONSTANTS = """<float s = {0.5}, float t = {0.25}, float u = {2}, int8 z = {0}, float[2] v = {0.5, 4},
    int8[2] o = {0, 0}>"""
INPUTS = "float[2,2] x, bool c, float si"


def compare(before: str, after: str, outputs: tuple[str, str] = ("y", "y")) -> DiffReport:
    def side(body: str, names: str) -> Side:
        made = ", ".join(f"float[2,2] {name}" for name in names.split())
        return Side(
            text_model(f'<ir_version: 10, opset_import: ["": 21]> g ({INPUTS}) => ({made}) {CONSTANTS} {{ {body} }}')
        )

    return Comparison(side(before, outputs[0]), side(after, outputs[1])).report()


def pair(source: str, number: int, scale: str = "s") -> str:
    """Q and DQ of ``source``; the result is called ``d`` and the number."""
    words, zero = ("<axis = 0>", "o") if scale == "v" else ("", "z")
    return (
        f" q{number} = QuantizeLinear {words} ({source}, {scale}, {zero})"
        f" d{number} = DequantizeLinear {words} (q{number}, {scale}, {zero}) "
    )


def info(tensor: str, scale: float, *readers: str) -> PairInfo:
    return PairInfo(
        tensor=tensor,
        graph="",
        form="pair",
        type="int8",
        granularity="per-tensor",
        scale_min=scale,
        scale_max=scale,
        readers=readers,
    )


def test_a_pair_in_front_of_a_new_node_is_added() -> None:
    report = compare("y = Exp(x)", f"y = Exp(x) {pair('x', 1)} w = Neg(d1)", ("y", "y w"))
    assert report.added == (info("x", 0.5, "Neg -> w"),)
    assert (report.pairs_before, report.pairs_after, report.preserved) == (0, 1, False)


def test_a_reader_that_is_gone_is_disturbed_where_its_pair_has_moved() -> None:
    front = f"r = Relu(x) {pair('r', 1)}"
    report = compare(f"{front} n = Neg(d1) y = Exp(n)", f"{front} n = Sigmoid(d1) y = Exp(n)")
    before, after = info("r", 0.5, "Neg -> n"), info("r", 0.5, "Sigmoid -> n")
    assert [(each.before, each.after) for each in report.moved] == [(before, after)]
    assert report.disturbed == (DisturbedReader("Neg -> n", "", (before,), None),)
    assert (report.removed, report.added, report.unmatched, report.preserved) == ((), (), 1, False)


def test_a_reader_whose_input_is_gone_is_disturbed_where_its_pair_has_moved() -> None:
    front = f"r = ReduceMax<keepdims = 0>(x) {pair('r', 1)}"
    report = compare(f"{front} y = Clip(x, d1)", f"{front} y = Clip(x) w = Abs(d1)", ("y", "y w"))
    assert report.disturbed == (DisturbedReader("Clip -> y[1]", "", (info("r", 0.5, "Clip -> y[1]"),), None),)


def test_a_reader_that_gets_another_pair_is_disturbed_where_its_own_has_moved() -> None:
    report = compare(
        f"r = Relu(x) {pair('r', 1)} m = Transpose(d1) y = Neg(m)",
        f"r = Relu(x) m = Transpose(r) {pair('m', 2, 't')} y = Neg(d2) {pair('r', 1)} w = Abs(d1)",
        ("y", "y w"),
    )
    assert len(report.moved) == 1
    assert report.disturbed == (
        DisturbedReader("Neg -> y", "", (info("r", 0.5, "Neg -> y"),), (info("m", 0.25, "Neg -> y"),)),
    )


def test_a_reader_that_gets_one_other_pair_of_two_is_disturbed() -> None:
    front = f"r = Relu(x) {pair('r', 9, 'u')}"
    report = compare(
        f"{front} {pair('d9', 1)} m = Transpose(d1) y = Neg(m)",
        f"{front} m = Transpose(d9) {pair('m', 2, 't')} y = Neg(d2) {pair('d9', 1)} w = Abs(d1)",
        ("y", "y w"),
    )
    assert [(each.reader, [pair.scale_min for pair in each.after or ()]) for each in report.disturbed] == [
        ("Neg -> y", [0.25, 2.0])
    ]


def test_a_changed_pair_disturbs_nobody_else() -> None:
    report = compare(
        f"{pair('x', 1)} {pair('d1', 2, 't')} m = Transpose(d2) y = Neg(m)",
        f"{pair('x', 1, 'u')} {pair('d1', 2, 't')} m = Transpose(d2) y = Neg(m)",
    )
    assert [each.changes for each in report.changed] == [(Change("scale", "0.5", "2", (4.0, 4.0)),)]
    assert report.disturbed == ()
    assert report.same == 1


def test_a_body_that_is_gone_has_lost_its_pairs() -> None:
    branches = f"""y = If(c) <then_branch = t () => (float[2,2] a) {{ {pair("x", 1)} a = Exp(d1) }},
        else_branch = e () => (float[2,2] b) {{ b = Neg(x) }}>"""
    report = compare(branches, "y = Neg(x)")
    assert [(each.tensor, each.graph, each.readers) for each in report.removed] == [
        ("x", "y.then_branch", ("Exp -> a",))
    ]


def test_an_output_that_is_gone_has_lost_its_pair() -> None:
    report = compare(f"y = Exp(x) {pair('x', 1)}", "y = Exp(x)", ("y d1", "y"))
    assert report.removed == (info("x", 0.5, "output d1"),)


@pytest.mark.parametrize(("scale", "expected"), [("v", (0.5, 4.0)), ("si", (None, None))])
def test_the_least_and_the_greatest_scale(scale: str, expected: tuple[float | None, float | None]) -> None:
    (lost,) = compare(f"{pair('x', 1, scale)} y = Exp(d1)", "y = Exp(x)").removed
    assert (lost.scale_min, lost.scale_max) == expected


def test_an_empty_scale_has_no_least_value() -> None:
    header = '<ir_version: 10, opset_import: ["": 21]> g (float[0] x) => (float[0] y)'
    stored = "<float[0] s = {}, int8[0] z = {}>"
    body = "q = QuantizeLinear<axis = 0>(x, s, z) d = DequantizeLinear<axis = 0>(q, s, z)"
    with_pair = Side(text_model(f"{header} {stored} {{ {body} y = Exp(d) }}"))
    (lost,) = Comparison(with_pair, Side(text_model(f"{header} {{ y = Exp(x) }}"))).report().removed
    assert (lost.granularity, lost.scale_min, lost.scale_max) == ("per-axis", None, None)


def test_a_q_without_input_is_no_reason_to_fail() -> None:
    report = compare('q1 = QuantizeLinear("", s, z) d1 = DequantizeLinear(q1, s, z) y = Exp(d1)', "y = Exp(x)")
    assert [each.tensor for each in report.removed] == [""]


def test_versions_of_each_domain() -> None:
    def side(ir: int, **domains: int) -> Side:
        imports = ", ".join(f'"{name.strip("_")}": {version}' for name, version in domains.items())
        return Side(
            text_model(f"<ir_version: {ir}, opset_import: [{imports}]> g (float x) => (float y) {{ y = Exp(x) }}")
        )

    report = Comparison(side(9, _=20, same=3, gone=1, my=2), side(10, my=4, _=21, same=3, new=7)).report()
    assert report.versions == (
        Change("IR version", "9", "10"),
        Change("opset ai.onnx", "20", "21"),
        Change("opset gone", "1", "absent"),
        Change("opset my", "2", "4"),
        Change("opset new", "absent", "7"),
    )


@pytest.mark.parametrize(
    ("before", "after", "pairs", "gone", "new"),
    [
        ("ab", "ba", "ab ba", "", ""),
        ("ab", "b", "bb", "a", ""),
        ("b", "ab", "bb", "", "a"),
        ("abc", "b", "bb", "ac", ""),
        ("abc", "xb", "bb ax", "c", ""),
        ("ax", "bca", "aa xb", "", "c"),
        ("aa", "a", "aa", "a", ""),
        ("", "ab", "", "", "ab"),
    ],
)
def test_equal_items_are_paired_first(before: str, after: str, pairs: str, gone: str, new: str) -> None:
    found = align(before, after, lambda one, other: one == other)
    assert found == ([(old, now) for old, now in pairs.split()], list(gone), list(new))


@given(*[st.text("abc", max_size=4)] * 2)
def test_no_item_is_lost_or_paired_twice(before: str, after: str) -> None:
    pairs, gone, new = align(before, after, lambda one, other: one == other)
    assert sorted([*(old for old, _ in pairs), *gone]) == sorted(before)
    assert sorted([*(now for _, now in pairs), *new]) == sorted(after)
    assert not (gone and new)
