"""Ranks of scales beside ranks of data."""

import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model
from support.corpus._case import node as made
from support.fixing import located, read

CODE = "QA207"
Shape = list[int]


@pytest.mark.parametrize("target", ["onnx", "ort-cpu", "tensorrt", "tensorrt-rtx"])
@pytest.mark.parametrize(
    ("data", "scale", "expected"),
    [
        ([2, 4], [], None),
        ([2, 4], [1], None),
        ([2, 4], [4], None),
        ([2, 4], [2, 2], None),
        ([2, 4], [1, 1, 1], "rank 0, 1 or 2"),
        ([1, 2, 4], [1, 1], "rank 0, 1 or 3"),
        ([4], [1, 1], "rank 0, 1 or 1"),
        ([4], [1], None),
        ([], [], None),
        ([], [1], "rank 0"),
        ([], [1, 1], "rank 0"),
    ],
    ids=str,
)
def test_ranks(data: Shape, scale: Shape, expected: str | None, target: str):
    """Two nodes in front of it are passed over: the shape of a scale or of data is unknown."""
    nodes = [
        made("Unknown", ["x"], "u", domain="local"),
        made("QuantizeLinear", ["x", "u", "z"], "q1"),
        made("QuantizeLinear", ["u", "s", "z"], "q2"),
        made("QuantizeLinear", ["x", "s", "z"], "y"),
    ]
    inputs = [("x", T.FLOAT, data), ("s", T.FLOAT, scale), ("z", T.INT8, scale)]
    context = read(graph_model(nodes, inputs, [("y", T.INT8, data)], [], 23, 11))
    found = [finding for finding, _ in located(CODE, context, target)]

    legal = expected is None or (scale == [1] and target in {"onnx", "ort-cpu"})
    assert [finding.node for finding in found] == ([] if legal else ["QuantizeLinear -> y"])
    for finding in found:
        words = ["[" + ", ".join(map(str, shape)) + "]" for shape in (scale, data)]
        assert finding.message == f"scale has shape {words[0]}, the data {words[1]}"
        assert (finding.found, finding.expected) == (f"rank {len(scale)}", expected)
