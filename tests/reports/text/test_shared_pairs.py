"""What the terminal says of the pairs put in and of the files written."""

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.models.graph.report import Sizes
from qdqtool.quantization.report import QuantizedTensor
from qdqtool.reports.text._shared import print_counts, print_files, print_opset, print_pairs


def pair(tensor: str, kind: str = "activation", graph: str = "", scales: int = 1) -> QuantizedTensor:
    return QuantizedTensor(
        tensor=tensor,
        graph=graph,
        kind=kind,
        format="int8",
        granularity="per-tensor" if scales == 1 else "per-axis 0",
        scales=scales,
        scale_min=0.0123456,
        scale_max=0.5,
        consumers=(),
        reason="",
    )


def test_pairs_are_counted_by_kind():
    pairs = [pair("x"), pair("y"), pair("w", "weight", scales=8)]

    assert (
        printed(print_counts, pairs, HOSTILE) == f"2 activations and 1 weight quantized in {ESCAPED} (-v lists them)\n"
    )
    assert printed(print_counts, [], "m") == "0 activations and 0 weights quantized in m\n"


def test_pairs_are_listed_with_their_scales_where_that_was_asked_for():
    pairs = [pair("x"), pair(HOSTILE, graph="then"), pair("w", "weight", scales=8)] + [pair("y")] * 60

    assert printed(print_pairs, pairs) == ""
    assert printed(print_pairs, pairs, verbose=True).splitlines()[:3] == [
        "  activation x: int8 per-tensor, scale 0.01235",
        f"  activation {ESCAPED} in then: int8 per-tensor, scale 0.01235",
        "  weight     w: int8 per-axis 0, 8 scales 0.01235 to 0.5",
    ]
    assert len(printed(print_pairs, pairs, verbose=True).splitlines()) == 63
    assert printed(print_counts, pairs, "m", verbose=True) == "62 activations and 1 weight quantized in m\n"


def test_the_opset_is_mentioned_only_where_it_was_raised():
    assert printed(print_opset, 13, 21) == "opset raised from 13 to 21, as the formats need\n"
    assert printed(print_opset, 21, 21) == ""


def test_files_are_named_with_their_sizes():
    sizes = Sizes(before=4000, after=1000)

    assert printed(print_files, "q.onnx", None, sizes) == "size 4 kB -> 1 kB (25%)\nwrote q.onnx\n"
    assert printed(print_files, HOSTILE, HOSTILE, sizes).endswith(f"wrote {ESCAPED}\nweights in {ESCAPED}\n")
