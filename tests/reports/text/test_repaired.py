"""What the terminal says of the repair of one model."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.linting.repair.report import Change, OutputChange, RefusedFix, Repaired
from qdqtool.reports.text.repaired import print_repaired

CHANGE = Change(code="QP101", label="safe", description="scale becomes 1", node="n", graph="", proof="bit-equal")
REFUSED = RefusedFix(code="QS001", label="unsafe", description="drop it", node=None, graph="", reason="not asked for")
SAME = OutputChange(
    name="y",
    exact=True,
    equal=True,
    other_shapes=0,
    max_abs=0,
    max_steps=None,
    sqnr_db=None,
    before_db=None,
    after_db=None,
)
MOVED = replace(SAME, exact=False, equal=False, max_abs=0.25, max_steps=2, sqnr_db=30.04, before_db=20, after_db=None)
OWN_NOISE = "; to its own noise: before 20.0 dB, after unknown"
FEEDS = "4 random samples"


def lines(*, verbose: bool = False, **parts: object) -> list[str]:
    return printed(print_repaired, Repaired(**parts), verbose=verbose).splitlines()


def test_a_change_has_label_code_place_and_proof():
    assert lines(changes=(CHANGE, replace(CHANGE, graph="then", label="unsafe"))) == [
        "  safe QP101 n: scale becomes 1 (bit-equal)",
        "  unsafe QP101 then/n: scale becomes 1 (bit-equal)",
    ]


def test_equal_changes_are_one_line_with_their_count():
    renamed = [replace(CHANGE, node=f"n{index}", description=f"renames '{index}'") for index in range(14)]
    changes = (*renamed, CHANGE, replace(CHANGE, label="unsafe"), renamed[0])

    assert lines(changes=changes) == [
        "  15 \u00d7 safe QP101 n0, n1, n2, n3, …: renames '…' (bit-equal)",
        "  safe QP101 n: scale becomes 1 (bit-equal)",
        "  unsafe QP101 n: scale becomes 1 (bit-equal)",
    ]
    assert len(lines(verbose=True, changes=changes)) == len(changes)


def test_equal_refusals_are_one_line_with_their_count():
    refused = (REFUSED, replace(REFUSED, reason="too large"), REFUSED)

    assert lines(refused=refused) == [
        "  2 \u00d7 not applied QS001 drop it: not asked for",
        "  not applied QS001 drop it: too large",
    ]


def test_a_refused_fix_has_its_reason():
    assert lines(refused=(REFUSED,)) == ["  not applied QS001 drop it: not asked for"]


def test_removed_values_are_listed():
    assert lines(removed=("a", HOSTILE)) == [f"  removed, because nothing reads it any more: a, {ESCAPED}"]


def test_only_some_of_many_removed_values_are_listed():
    names = [f"w{index}" for index in range(15)]

    assert lines(removed=names) == [
        f"  removed, because nothing reads it any more: {', '.join(names[:12])}, and 3 more (-v lists all)"
    ]
    assert lines(removed=names, verbose=True) == [f"  removed, because nothing reads it any more: {', '.join(names)}"]


def test_noise_that_is_the_change_itself_is_not_printed_twice():
    moved = replace(MOVED, before_db=None, after_db=30.04)

    assert lines(outputs=(moved,), feeds=FEEDS) == [
        "  output y: changed by at most 0.25, 2 steps; SQNR against before 30.0 dB",
        "  on 4 random samples",
    ]


def test_bit_equal_outputs_share_one_line():
    assert lines(changes=(CHANGE,), outputs=(SAME, SAME), feeds=FEEDS)[1:] == [
        "  2 outputs, each bit-equal to before, on 4 random samples"
    ]


def test_a_changed_output_has_its_distance_and_noise():
    signs = replace(SAME, name="z", exact=False)

    assert lines(outputs=(SAME, MOVED, signs), feeds=FEEDS) == [
        f"  output y: changed by at most 0.25, 2 steps; SQNR against before 30.0 dB{OWN_NOISE}",
        "  output z: equal to before, but for the sign of zeros",
        "  on 4 random samples; noise is measured against the model without Q/DQ",
    ]


def test_samples_in_which_an_output_has_another_shape_are_counted():
    outputs = (replace(MOVED, other_shapes=3), replace(MOVED, name="z", max_steps=None, other_shapes=1))
    rest = f"; SQNR against before 30.0 dB{OWN_NOISE}"

    assert lines(outputs=outputs, feeds=FEEDS)[:2] == [
        f"  output y: changed by at most 0.25, 2 steps; another shape than before in 3 samples{rest}",
        f"  output z: changed by at most 0.25; another shape than before in 1 sample{rest}",
    ]


def test_the_lack_of_a_proof_matters_only_where_something_was_to_change():
    unproven = "  nothing is proven of the model as it was: no kernel"

    assert unproven in lines(changes=(CHANGE,), unproven="no kernel")
    assert unproven in lines(refused=(REFUSED,), unproven="no kernel")
    assert lines(unproven="no kernel") == []


def test_strings_of_the_model_are_escaped():
    change = replace(CHANGE, description=HOSTILE, node=HOSTILE, proof=HOSTILE)
    refused = replace(REFUSED, reason=HOSTILE)
    output = replace(MOVED, name=HOSTILE)
    text = "\n".join(lines(changes=(change,), refused=(refused,), outputs=(output,), feeds=HOSTILE, unproven=HOSTILE))

    assert text.count(ESCAPED) == 7
