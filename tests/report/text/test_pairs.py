"""What the terminal says of the pairs put in and of the files written."""

from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.graph.io.save import Sizes
from qdqtool.insertion.apply_plan import QuantizedTensor
from qdqtool.report.text._pairs import SHOWN, print_files, print_opset, print_pairs


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


def test_pairs_are_counted_by_kind_and_listed_with_their_scales():
    pairs = [pair("x"), pair(HOSTILE, graph="then"), pair("w", "weight", scales=8)]

    assert printed(print_pairs, pairs, HOSTILE).splitlines() == [
        f"2 activations and 1 weight quantized in {ESCAPED}",
        "  activation x: int8 per-tensor, scale 0.01235",
        f"  activation {ESCAPED} in then: int8 per-tensor, scale 0.01235",
        "  weight     w: int8 per-axis 0, 8 scales 0.01235 to 0.5",
    ]


def test_a_long_list_of_pairs_is_cut_and_the_rest_counted():
    exactly = printed(print_pairs, [pair("x")] * SHOWN, "m").splitlines()
    more = printed(print_pairs, [pair("x")] * (SHOWN + 2), "m").splitlines()

    assert len(exactly) == 1 + SHOWN
    assert more[SHOWN + 1 :] == ["  … and 2 more (--output-format json lists all)"]


def test_the_opset_is_mentioned_only_where_it_was_raised():
    assert printed(print_opset, 13, 21) == "opset raised from 13 to 21, as the formats need\n"
    assert printed(print_opset, 21, 21) == ""


def test_files_are_named_with_their_sizes():
    sizes = Sizes(before=4000, after=1000)

    assert printed(print_files, "q.onnx", None, sizes) == "size 4 kB -> 1 kB (25%)\nwrote q.onnx\n"
    assert printed(print_files, HOSTILE, HOSTILE, sizes).endswith(f"wrote {ESCAPED}\nweights in {ESCAPED}\n")
