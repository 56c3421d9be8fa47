"""What the terminal says of the difference of two models."""

from dataclasses import replace

from support.printed import printed

from qdqtool.models.diff.parameters import Change
from qdqtool.models.diff.report import ChangedPair, DiffReport, DisturbedReader, MovedPair, PairInfo
from qdqtool.reports.text.diff import SHOWN, render

PAIR = PairInfo(
    tensor="t",
    graph="",
    form="pair",
    type="int8",
    granularity="per-tensor",
    scale_min=0.5,
    scale_max=0.5,
    readers=("Conv c input 0",),
)
REPORT = DiffReport(
    before="a.onnx",
    after="b.onnx",
    pairs_before=1,
    pairs_after=2,
    preserved=True,
    same=1,
    removed=(),
    changed=(),
    moved=(),
    added=(),
    disturbed=(),
    versions=(),
    unmatched=0,
)
SHOWN_PAIR = "t: int8 per-tensor pair, scale 0.5, read by Conv c input 0"


def lines(**changes: object) -> list[str]:
    return printed(render, replace(REPORT, **changes)).splitlines()


def test_each_kind_of_difference_has_its_sign():
    other = replace(PAIR, tensor="u", graph="then")
    changes = (Change("scale", "0.5", "1", (2.0, 2.0)), Change("axis", "0", "1"))
    text = lines(
        removed=(PAIR,),
        changed=(ChangedPair(PAIR, changes),),
        moved=(MovedPair(PAIR, other),),
        added=(other,),
        versions=(Change("IR version", "9", "10"),),
        unmatched=1,
    )

    assert text[1:-1] == [
        "  IR version: 9 -> 10",
        f"  - {SHOWN_PAIR}",
        "  ~ t (read by Conv c input 0): scale 0.5 -> 1 (x 2), axis 0 -> 1",
        f"  > {SHOWN_PAIR}; now at then/u, read by Conv c input 0",
        "  + then/u: int8 per-tensor pair, scale 0.5, read by Conv c input 0",
        "  1 other node of the first model not found in the second",
    ]
    assert text[-1].endswith("1 removed, 1 changed, 1 moved, 1 added")


def test_readers_with_other_values_are_told_in_the_order_of_the_data():
    coarse = replace(PAIR, scale_min=5.0, scale_max=5.0)
    text = lines(
        disturbed=(
            DisturbedReader("MatMul m[0]", "", (PAIR,), (coarse, PAIR)),
            DisturbedReader("Conv c[0]", "then", (PAIR,), ()),
            DisturbedReader("Gemm g[0]", "", (PAIR,), None),
        )
    )

    assert text[1:-1] == [
        "  ! MatMul m[0], which read int8 of scale 0.5, reads int8 of scale 0.5, then int8 of scale 5 now",
        "  ! then/Conv c[0], which read int8 of scale 0.5, reads a float tensor now",
        "  ! Gemm g[0], which read int8 of scale 0.5, is not found in the second model",
    ]
    assert text[-1].endswith("0 added, 3 readers with other values")


def test_a_first_model_without_pairs_is_told():
    assert (
        lines(pairs_before=0)[1]
        == "  nothing to preserve: the first model has no quantized tensor: are the models swapped?"
    )
    assert lines(pairs_before=0, pairs_after=0)[1] == "  nothing to preserve: the first model has no quantized tensor"


def test_many_scales_are_a_span():
    spans = (Change("scale", "a", "b", (0.5, 2.0)),)
    assert ", scale 0.25 to 0.5, " in lines(removed=(replace(PAIR, scale_min=0.25),))[1]
    assert ", scale computed, " in lines(removed=(replace(PAIR, scale_min=None, scale_max=None),))[1]
    assert lines(changed=(ChangedPair(PAIR, spans),))[1].endswith("scale a -> b (x 0.5 to 2)")


def test_long_lists_are_cut_and_the_rest_counted():
    text = lines(added=(replace(PAIR, readers=tuple("abcdef")),) * (SHOWN + 3))
    assert text[1].endswith("read by a, b, c, d and 2 more")
    assert lines(added=(replace(PAIR, readers=tuple("abcd")),))[1].endswith("read by a, b, c, d")
    assert text[1 + SHOWN] == "  … and 3 more (-v lists all)"
