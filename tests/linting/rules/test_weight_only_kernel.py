"""QL315: which weights a matrix kernel of TensorRT for RTX reads as they are stored; the layer dump is asked too."""

import re
from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, node, tensor, type_word
from support.one_rule import findings, parsed
from support.trt_verdict import TrtOracle

from qdqtool.linting import rules
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

ROWS, COLUMNS = 256, 64
FORMATS = {T.INT8: "Int8", T.FLOAT8E4M3FN: "FP8", T.INT4: "Int4", T.FLOAT4E2M1: "FP4E2M1"}
SCALES: Mapping[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "one scale": ((), {}),
    "one for each output channel": ((COLUMNS,), {"axis": 1}),
    "one block": ((1, COLUMNS), {"axis": 0, "block_size": ROWS}),
    "two blocks": ((2, COLUMNS), {"axis": 0, "block_size": ROWS // 2}),
    "blocks of 16": ((ROWS // 16, COLUMNS), {"axis": 0, "block_size": 16}),
    "blocks of output channels": ((ROWS, 2), {"axis": 1, "block_size": COLUMNS // 2}),
}


def weight_only(codes: int, shape: tuple[int, ...], attributes: Mapping[str, int]) -> onnx.ModelProto:
    nodes = [node("DequantizeLinear", ["w", "s"], "wd", **attributes), node("MatMul", ["x", "wd"], "y")]
    stored = [tensor("w", np.ones((ROWS, COLUMNS)), codes), tensor("s", np.full(shape, 0.1))]
    return graph_model(nodes, [("x", T.FLOAT, [8, ROWS])], [("y", T.FLOAT, [8, COLUMNS])], stored, 23, 11)


@pytest.mark.builder
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("codes", FORMATS, ids=type_word)
def test_it_is_reported_exactly_when_codes_do_not_reach_the_matrix_kernel(codes: int, scales: str, oracle: TrtOracle):
    model = weight_only(codes, *SCALES[scales])
    layers = [
        line for line in oracle.judge(model).layers.splitlines() if "LayerType" in line and "Constants: [" in line
    ]
    holders = [line for line in layers if f"Datatype: {FORMATS[codes]}" in line[line.index("Constants: [") :]]

    said = list(rules.get("QL315").run(RuleContext(Model(model)), targets.get("tensorrt-rtx")))

    (holder,) = holders
    inputs = re.findall(r"Datatype: (\w+)", holder[holder.index("Inputs: [") : holder.index("Constants: [")])
    assert bool(said) == (not inputs)


def products(body: str, kind: str = "int8", scale: str = "float s") -> onnx.ModelProto:
    """A graph with float inputs ``x`` and ``wide``, a stored weight ``w``, and a scale that the caller gives."""
    stored = {"int8": ", ".join("1" * 16), "int4": ", ".join("1" * 8)}
    return parsed(f"""
        agraph (float[4,4] x, float[2,4,4] wide, {kind}[4,4] given, {scale}) => (y)
        <{kind}[4,4] w = {{{stored[kind]}}}, float t = {{0.1}}, float[4] each = {{1,1,1,1}}> {{ {body} }}
    """)


@pytest.mark.parametrize(
    ("body", "scale", "kind", "found"),
    [
        ("d = DequantizeLinear (w, t) y = MatMul (x, d)", "float s", "int4", "int4 per-tensor"),
        ("d = DequantizeLinear (w, t) y = Gemm (x, d)", "float s", "int4", "int4 per-tensor"),
        ("d = DequantizeLinear (w, t) y = MatMul (x, d)", "float s", "int8", None),
        ("d = DequantizeLinear <axis = 1> (w, each) y = MatMul (x, d)", "float s", "int4", "int4 per-axis 1"),
        ("d = DequantizeLinear <axis = 0, block_size = 2> (w, s) y = MatMul (x, d)", "float[2,4] s", "int4", None),
        (
            "d = DequantizeLinear <axis = 0, block_size = 2> (w, s) y = MatMul (x, d)",
            "float[2,4] s",
            "int8",
            "int8 blocks of 2 on axis 0",
        ),
        ("d = DequantizeLinear <axis = 0, block_size = 4> (w, s) y = MatMul (x, d)", "float[1,4] s", "int8", None),
        (
            "d = DequantizeLinear <axis = 0, block_size = 4> (w, s) y = MatMul (x, d)",
            "float[1,4] s",
            "int4",
            "int4 blocks of 4 on axis 0",
        ),
        # The number of blocks is not known.
        ("d = DequantizeLinear <axis = 0, block_size = 4> (w, s) y = MatMul (x, d)", "float[N,4] s", "int8", None),
        ("d = DequantizeLinear <axis = 0, block_size = 4> (w, s) y = MatMul (x, d)", "float[N,4] s", "int4", None),
        ("d = DequantizeLinear <axis = 7, block_size = 4> (w, s) y = MatMul (x, d)", "float[1,4] s", "int4", None),
        # Scales of other ranks and without a block size are reported by rules of their own.
        ("d = DequantizeLinear <axis = 1, block_size = 4> (w, s) y = MatMul (x, d)", "float[1,1,4] s", "int8", None),
        ("d = DequantizeLinear <axis = 0> (w, s) y = MatMul (x, d)", "float[2,4] s", "int4", None),
        # What is no weight, in a product of two quantized operands, or in a convolution.
        ("d = DequantizeLinear (given, t) y = MatMul (x, d)", "float s", "int4", None),
        ("e = DequantizeLinear (given, t) d = DequantizeLinear (w, t) y = MatMul (e, d)", "float s", "int4", None),
        ("y = MatMul (x, x)", "float s", "int4", None),
        ("d = DequantizeLinear (w, t) y = Conv (x, d)", "float s", "int4", None),
        (
            "a = MatMul (x, x) b = Conv (x, a) d = DequantizeLinear (w, t) y = MatMul (x, d)",
            "float s",
            "int4",
            "int4 per-tensor",
        ),
    ],
)
def test_what_is_said_of_a_weight(body: str, scale: str, kind: str, found: str | None):
    said = findings("QL315", products(body, kind, scale), "tensorrt-rtx")

    assert [(each.found, each.message, each.tensor) for each in said] == (
        [(found, f"no kernel reads {found.replace(' ', ' weights ', 1)}", "d")] if found else []
    )


def test_the_axis_may_lie_beyond_a_scale_of_fewer_axes():
    model = products(
        "d = DequantizeLinear <axis = 2, block_size = 4> (w3, s) y = MatMul (wide, d)", scale="float[4,1] s"
    )
    model.graph.initializer.append(tensor("w3", np.ones((2, 4, 4)), T.INT8))

    assert findings("QL315", model, "tensorrt-rtx") == []
