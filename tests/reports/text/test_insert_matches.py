"""What the terminal says of what ``quantize`` would do."""

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.jobs.matches import MatchesReport, NodeToQuantize
from qdqtool.models.graph.report import NodeReason
from qdqtool.quantization.planning.placement import PatternMatch
from qdqtool.reports.text.insert import render_matches


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
        "--op-types-to-quantize 'Relu' matches 1 node, none of them quantizable: it changes nothing",
        "  r",
        f"2 nodes of {ESCAPED} would be quantized for tensorrt",
        "  c (Conv)",
        f"  {ESCAPED} (Gemm) in then",
        "1 node unquantized",
        "  Conv d: excluded",
    ]
