"""What the terminal says of repaired, normalized and stripped models."""

from dataclasses import replace

import pytest
from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.jobs.strip import StripReport
from qdqtool.linting.repair.report import (
    Change,
    FixedModel,
    FixReport,
    NormalizeReport,
    OutputChange,
    RefusedFix,
    Repaired,
)
from qdqtool.linting.report import Summary
from qdqtool.models.graph.report import NodeReason, Sizes
from qdqtool.models.transforms.strip import RestoredNode
from qdqtool.models.transforms.strip_edits import RemovedNode
from qdqtool.reports.text.repaired import print_repaired, render_fixes, render_normalized, render_stripped

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
OWN_NOISE = "; SQNR to its float model: before 20.0 dB, after unknown"
FEEDS = "4 random samples"


def lines(*, verbose: bool = False, **parts: object) -> list[str]:
    return printed(print_repaired, Repaired(**parts), verbose=verbose).splitlines()


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


def test_removed_values_are_listed():
    assert lines(removed=("a", HOSTILE)) == [f"  removed, because no node reads it any more: a, {ESCAPED}"]


def test_only_some_of_many_removed_values_are_listed():
    names = [f"w{index}" for index in range(15)]
    assert lines(removed=names) == [
        f"  removed, because no node reads it any more: {', '.join(names[:12])}, and 3 more (-v lists all)"
    ]
    assert lines(removed=names, verbose=True) == [f"  removed, because no node reads it any more: {', '.join(names)}"]


def test_noise_that_is_the_change_itself_is_not_printed_twice():
    moved = replace(MOVED, before_db=None, after_db=30.04)
    assert lines(outputs=(moved,), feeds=FEEDS) == [
        "  output y: changed by at most 0.25, 2 steps; SQNR against before 30.0 dB",
        "  on 4 random samples",
    ]


def test_a_changed_output_has_its_distance_and_noise():
    signs = replace(SAME, name="z", exact=False)
    assert lines(outputs=(SAME, MOVED, signs), feeds=FEEDS) == [
        f"  output y: changed by at most 0.25, 2 steps; SQNR against before 30.0 dB{OWN_NOISE}",
        "  output z: equal to before, except for the sign of zeros",
        "  on 4 random samples; noise is measured against the model without Q/DQ",
    ]


def test_samples_in_which_an_output_has_another_shape_are_counted():
    outputs = (replace(MOVED, other_shapes=3), replace(MOVED, name="z", max_steps=None, other_shapes=1))
    rest = f"; SQNR against before 30.0 dB{OWN_NOISE}"
    assert lines(outputs=outputs, feeds=FEEDS)[:2] == [
        f"  output y: changed by at most 0.25, 2 steps; the shape changed in 3 samples{rest}",
        f"  output z: changed by at most 0.25; the shape changed in 1 sample{rest}",
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


SAFE = Change(code="QP101", label="safe", description="scale becomes 1", node="n", graph="", proof="bit-equal")
MODEL = FixedModel(path="m.onnx", output="f.onnx", repaired=Repaired(changes=(SAFE, replace(SAFE, label="unsafe"))))


def fixed(**changes: object) -> list[str]:
    return printed(render_fixes, FixReport(models=(replace(MODEL, **changes),), summary=Summary())).splitlines()


def test_changes_are_counted_by_label_and_the_file_is_named():
    text = fixed(external_data="f.data")
    assert text[0] == "m.onnx: 2 changes made (1 safe, 1 unsafe)"
    assert text[3:6] == ["wrote f.onnx", "weights in f.data", ""]


@pytest.mark.parametrize(("output", "words"), [("f.onnx", ": the output is a copy of the model"), (None, "")])
def test_nothing_changed_is_said(output: str | None, words: str):
    assert fixed(repaired=Repaired(), output=output)[0] == f"m.onnx: nothing was changed{words}"


def test_fixes_that_differ_in_the_numbers_of_a_tensor_are_counted_together():
    many = [replace(REFUSED, description=f"quantizes it: scale {number}", node=f"n{number}") for number in range(3)]
    (line,) = lines(refused=tuple(many))
    assert line.startswith("  3 × not applied")  # noqa: RUF001 -- the sign that is printed
    assert line.endswith(f"n0, n1, n2: quantizes it: {REFUSED.reason}")
    (line,) = lines(refused=(many[1],))
    assert "quantizes it: scale 1: " in line


def test_an_unreadable_model_has_only_its_error():
    assert fixed(repaired=None, output=None, error="no such file") == [
        "m.onnx: unreadable",
        "  no such file",
        "",
        "1 model, 0 errors, 0 warnings, 0 infos, 1 unreadable",
    ]


REWRITE = Change(code="qlinear-conv", label="safe", description="to Q/DQ", node="n", graph="", proof="bit-equal")


def normalized(name: str, data: str | None) -> list[str]:
    repaired = Repaired(changes=(REWRITE,))
    return printed(
        render_normalized, NormalizeReport(model=name, output=name, external_data=data, repaired=repaired)
    ).splitlines()


def test_file_names_of_normalize_are_escaped():
    assert normalized(HOSTILE, HOSTILE)[2:] == [f"wrote {ESCAPED}", f"weights in {ESCAPED}"]
    assert normalized(HOSTILE, None)[0] == f"1 form rewritten in {ESCAPED}"


@pytest.mark.parametrize("existing", ["keep", "replace"])
def test_data_that_is_float_now_is_named_with_the_command_that_quantizes_it(existing: str):
    change = Change(code="dynamic-product", label="unsafe", description="to MatMul", node="n", graph="", proof="change")
    left = RefusedFix(code="signed-codes", label="safe", description="int8", node="n", graph="", reason="127")
    repaired = Repaired(changes=(change,), refused=(left,) if existing == "replace" else ())
    report = NormalizeReport(model="m", output="an out.onnx", external_data=None, repaired=repaired)
    assert printed(render_normalized, report).splitlines()[-1] == (
        "data that was quantized at run time is float now; "
        f"`qdqtool quantize 'an out.onnx' --existing {existing} --calib-data DATA -o OUT.onnx` gives it static pairs"
    )


def test_what_went_what_stays_and_the_files():
    report = StripReport(
        model=HOSTILE,
        output="f.onnx",
        external_data=HOSTILE,
        removed=(
            RemovedNode(node="d", graph="", kind="pair", tensor="t"),
            RemovedNode(node="e", graph="", kind="weight", tensor="w"),
            RemovedNode(node="f", graph="", kind="weight", tensor="v"),
        ),
        restored=(
            *(RestoredNode(node=name, graph="", op_type="Relu", tensor="r") for name in "ab"),
            RestoredNode(node=HOSTILE, graph="", op_type="Clip", tensor="c", low=0.0, high=6.0),
        ),
        kept=(NodeReason(node=HOSTILE, op_type="Q", graph="then", reason="its codes are an output"),),
        warnings=(HOSTILE,),
        sizes=Sizes(before=1000, after=4000),
    )

    assert printed(render_stripped, report).splitlines() == [
        f"3 quantized tensors (1 activation, 2 weights) made float again in {ESCAPED}",
        "  put back Relu 2 times: a Q clipped the same values",
        "  put back Clip (min 0, max 6): a Q clipped the same values",
        f"  kept {ESCAPED} in then: its codes are an output",
        f"  warning {ESCAPED}",
        "size 1 kB -> 4 kB (400%)",
        "wrote f.onnx",
        f"weights in {ESCAPED}",
    ]
