"""QL315 against the layer dump: which weights a matrix kernel of TensorRT for RTX reads as they are stored."""

import re
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, node, tensor, type_word
from support.trt_verdict import TrtOracle

from qdqtool import rules, targets
from qdqtool.graph.model import Model
from qdqtool.rules import RuleContext

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


@pytest.fixture(scope="module")
def oracle() -> Iterator[TrtOracle]:
    oracle = TrtOracle()
    yield oracle
    oracle.close()


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
