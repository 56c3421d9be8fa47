"""What may stand between a DQ and the Conv that reads it: the walk of the rules against the layer dump.

QL302 says that a Conv runs in float because one of its operands is no codes. It must say so of exactly those operators
behind which the kernel of TensorRT for RTX reads float.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper
from support.corpus._case import INT8_ZERO, SCALE, graph_model, node, pair, tensor
from support.trt_verdict import TrtOracle

from qdqtool import rules, targets
from qdqtool.graph.model import Model
from qdqtool.rules import RuleContext

Step = tuple[str, Sequence[str], Mapping[str, Any]]

CHANNELS = 32
IMAGE = [1, CHANNELS, 8, 8]
INTEGERS = {"pads": [0, 0, 1, 1] * 2, "axis": [2], "zero": [0], "two": [2], "six": [6], "rows": [0, 1, 2]}
INTEGERS |= {"other_shape": [1, CHANNELS, 4, 16], "times": [1, 1, 2, 2], "batch": [4, CHANNELS, 8, 8]}
NUMBERS = {
    "none": 0.0,
    "half": 0.5,
    "sizes": [1.0, 1.0, 2.0, 2.0],
    "each": np.linspace(0.5, 1.5, 32).reshape(1, 32, 1, 1),
}

BETWEEN: Mapping[str, Sequence[Step]] = {
    "nothing but an Identity": [("Identity", ["d"], {})],
    "Pad with zeros": [("Pad", ["d", "pads"], {})],
    "Pad with a zero that is given": [("Pad", ["d", "pads", "none"], {})],
    "Pad with a half": [("Pad", ["d", "pads", "half"], {})],
    "Pad by reflection": [("Pad", ["d", "pads"], {"mode": "reflect"})],
    "MaxPool": [("MaxPool", ["d"], {"kernel_shape": [2, 2]})],
    "AveragePool": [("AveragePool", ["d"], {"kernel_shape": [2, 2]})],
    "GlobalMaxPool": [("GlobalMaxPool", ["d"], {})],
    "GlobalAveragePool": [("GlobalAveragePool", ["d"], {})],
    "Transpose": [("Transpose", ["d"], {"perm": [0, 1, 3, 2]})],
    "Reshape": [("Reshape", ["d", "other_shape"], {})],
    "Slice": [("Slice", ["d", "zero", "six", "axis", "two"], {})],
    "Split": [("Split", ["d"], {"axis": 2, "num_outputs": 1})],
    "Gather": [("Gather", ["d", "rows"], {"axis": 2})],
    "Tile": [("Tile", ["d", "times"], {})],
    "Expand": [("Expand", ["d", "batch"], {})],
    "Unsqueeze and Squeeze": [("Unsqueeze", ["d", "zero"], {}), ("Squeeze", ["t0", "zero"], {})],
    "Concat with itself": [("Concat", ["d", "d"], {"axis": 2})],
    "Concat of equal scales": [("Concat", ["d", "same"], {"axis": 2})],
    "Concat of two scales": [("Concat", ["d", "unlike"], {"axis": 2})],
    "Concat with a float": [("Concat", ["d", "x2"], {"axis": 2})],
    "Concat of a Slice": [("Slice", ["d", "zero", "six", "axis"], {}), ("Concat", ["t0", "same"], {"axis": 2})],
    "Resize to the nearest": [("Resize", ["d", "", "sizes"], {"mode": "nearest"})],
    "Relu": [("Relu", ["d"], {})],
    "LeakyRelu": [("LeakyRelu", ["d"], {})],
    "Clip": [("Clip", ["d", "none", "half"], {})],
    "HardSwish": [("HardSwish", ["d"], {})],
    "Dropout": [("Dropout", ["d"], {})],
    "Neg": [("Neg", ["d"], {})],
    "Abs": [("Abs", ["d"], {})],
    "Sign": [("Sign", ["d"], {})],
    "Mul by a number": [("Mul", ["d", "half"], {})],
    "a number times it": [("Mul", ["half", "d"], {})],
    "Div by a number": [("Div", ["d", "half"], {})],
    "Mul by a number for each channel": [("Mul", ["d", "each"], {})],
    "Mul of two": [("Mul", ["d", "same"], {})],
    "Add of a number": [("Add", ["d", "half"], {})],
    "Add of two": [("Add", ["d", "same"], {})],
    "Max of equal scales": [("Max", ["d", "same"], {})],
    "Max of two scales": [("Max", ["d", "unlike"], {})],
    "Max with a number": [("Max", ["d", "none"], {})],
    "Min of equal scales": [("Min", ["d", "same"], {})],
    "ReduceMax": [("ReduceMax", ["d", "axis"], {})],
    "ReduceMin": [("ReduceMin", ["d", "axis"], {})],
    "ReduceMean": [("ReduceMean", ["d", "axis"], {})],
    "Cast to the same type": [("Cast", ["d"], {"to": T.FLOAT})],
}


@pytest.fixture(scope="module")
def oracle() -> Iterator[TrtOracle]:
    oracle = TrtOracle()
    yield oracle
    oracle.close()


def conv_behind(steps: Sequence[Step]) -> onnx.ModelProto:
    """Q, DQ, the steps, and a Conv named ``c`` with an int8 weight."""
    sources = [*pair("x", "d"), *pair("x2", "same"), *pair("x2", "unlike", scale="other")]
    made = [helper.make_node(op, inputs, [f"t{index}"], **more) for index, (op, inputs, more) in enumerate(steps)]
    weight = node("DequantizeLinear", ["w", "s"], "wd")
    conv = helper.make_node("Conv", [f"t{len(steps) - 1}", "wd"], ["y"], name="c")
    needed = {name for each in made for name in each.input}
    needed |= {name for each in sources if each.output[0] in needed for name in each.input}
    stored = [SCALE, INT8_ZERO, tensor("other", 0.2), tensor("w", np.ones((CHANNELS, CHANNELS, 1, 1)), T.INT8)]
    stored += [tensor(name, value, T.INT64) for name, value in INTEGERS.items()]
    stored += [tensor(name, value) for name, value in NUMBERS.items()]
    nodes = [*(each for each in sources if each.output[0] in needed), *made, weight, conv]
    inputs = [(name, T.FLOAT, IMAGE) for name in ("x", "x2") if any(name in each.input for each in nodes)]
    return graph_model(nodes, inputs, [("y", T.FLOAT, None)], stored)


@pytest.mark.builder
@pytest.mark.parametrize("name", BETWEEN)
def test_a_conv_is_said_to_run_in_float_exactly_when_it_does(name: str, oracle: TrtOracle):
    model = conv_behind(BETWEEN[name])
    kernel = oracle.judge(model).convolution("c")
    read = set(re.findall(r"Datatype: (\w+)", kernel[kernel.index("Inputs: [") : kernel.index("Constants: [")]))

    said = list(rules.get("QL302").run(RuleContext(Model(model)), targets.get("tensorrt-rtx")))

    assert bool(said) == (read == {"Float"})


def test_many_joins_in_a_row_end_the_walk():
    steps: list[Step] = [("Max", ["d", "d"], {})]
    steps += [("Max", [f"t{index}", f"t{index}"], {}) for index in range(60)]

    said = list(rules.get("QL302").run(RuleContext(Model(conv_behind(steps))), targets.get("tensorrt-rtx")))

    assert said
