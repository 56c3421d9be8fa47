"""What the terminal says of a plan put into a model, and of what ``quantize`` would do."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.jobs.insert import InsertReport
from qdqtool.jobs.matches import MatchesReport, NodeToQuantize
from qdqtool.models.graph.report import NodeReason, Sizes
from qdqtool.quantization.planning.placement import PatternMatch
from qdqtool.quantization.planning.target_fit import RefusedBy
from qdqtool.quantization.report import GivenReport
from qdqtool.reports.text.insert import render, render_matches

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


def test_patterns_and_nodes_are_listed_with_their_effect():
    report = MatchesReport(
        model=HOSTILE,
        target="tensorrt",
        patterns=(
            PatternMatch("--nodes-to-exclude", "a*", ("a1", HOSTILE), 1),
            PatternMatch("--nodes-to-exclude", HOSTILE, ("b",), 1),
            PatternMatch("--op-types-to-quantize", "Relu", ("r",), 0),
        ),
        quantized=(
            NodeToQuantize(node="c", op_type="Conv", graph=""),
            NodeToQuantize(node=HOSTILE, op_type="Gemm", graph="then"),
        ),
        skipped=(NodeReason(node="d", op_type="Conv", graph="", reason="excluded"),),
    )

    assert printed(render_matches, report).splitlines() == [
        "--nodes-to-exclude 'a*' matches 2 nodes, 1 of them quantizable",
        "  a1",
        f"  {ESCAPED}",
        f"--nodes-to-exclude '{ESCAPED}' matches 1 node, all quantizable",
        "  b",
        "--op-types-to-quantize 'Relu' matches 1 node, none of them is quantizable: the pattern has no effect",
        "  r",
        f"2 nodes of {ESCAPED} would be quantized for tensorrt",
        "  c (Conv)",
        f"  {ESCAPED} (Gemm) in then",
        "1 node unquantized",
        "  Conv d: excluded",
    ]
