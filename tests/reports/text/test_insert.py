"""What the terminal says of a plan put into a model."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.jobs.insert import InsertReport
from qdqtool.models.graph.report import NodeReason, Sizes
from qdqtool.quantization.planning.target_fit import RefusedBy
from qdqtool.quantization.report import GivenReport
from qdqtool.reports.text.insert import render

REPORT = InsertReport(
    model="m.onnx",
    output="q.onnx",
    external_data=None,
    opset_before=17,
    opset_after=17,
    verified=None,
    quantized=(),
    refused_by=(),
    sizes=Sizes(before=100, after=50),
)
REFUSED = RefusedBy(target="tensorrt", tensor="t", graph="then", reason="takes no uint8", alternative="int8")


def lines(**changes: object) -> list[str]:
    return printed(render, replace(REPORT, **changes)).splitlines()


def test_a_plain_insertion_has_counts_sizes_and_file():
    assert lines() == [
        "0 activations and 0 weights quantized in m.onnx",
        "size 100 bytes -> 50 bytes (50%)",
        "wrote q.onnx",
    ]


def test_everything_else_is_said_where_it_happened():
    text = lines(
        skipped=(NodeReason(node="n", op_type="Conv", graph="", reason="no range"),),
        given=GivenReport(source="r.json", format="json", mode="int8", tensors=1, unknown=(), notes=()),
        opset_after=21,
        verified="4 random samples",
        refused_by=(REFUSED, replace(REFUSED, tensor=HOSTILE, graph="", alternative="")),
    )

    assert text[3:] == [
        "ranges of 1 tensor from r.json (json, int8)",
        "opset raised from 17 to 21, as the formats need",
        "verified: 4 random samples",
        "note: tensorrt takes no uint8 (tensor then/t); nearest: int8",
        f"note: tensorrt takes no uint8 (tensor {ESCAPED})",
        "1 node unquantized",
        "  Conv n: no range",
    ]
