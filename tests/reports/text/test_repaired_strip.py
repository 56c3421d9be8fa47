"""What the terminal says of a model without its Q/DQ."""

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.jobs.strip import StripReport
from qdqtool.models.graph.report import NodeReason, Sizes
from qdqtool.models.transforms.strip import RestoredNode
from qdqtool.models.transforms.strip_edits import RemovedNode
from qdqtool.reports.text.repaired import render_stripped


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
        f"1 pair bypassed and 2 weights made float again in {ESCAPED}",
        "  put back Relu 2 times: the range of a Q did its work",
        "  put back Clip (min 0, max 6): the range of a Q did its work",
        f"  kept {ESCAPED} in then: its codes are an output",
        f"  warning {ESCAPED}",
        "size 1 kB -> 4 kB (400%)",
        "wrote f.onnx",
        f"weights in {ESCAPED}",
    ]


def test_a_float_model_is_said_to_have_nothing_to_take_out():
    report = StripReport(
        model="m.onnx",
        output="f.onnx",
        external_data=None,
        removed=(),
        restored=(),
        kept=(),
        warnings=(),
        sizes=Sizes(before=1000, after=1000),
    )

    assert printed(render_stripped, report).startswith("no pair or weight to take out in m.onnx\n")
