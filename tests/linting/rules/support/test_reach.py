"""What may stand between a DQ and the product that reads it: the walk of the rules, and the layer dump.

QL302 says that a Conv runs in float because one of its operands is no codes. It must say so of exactly those operators
behind which the kernel of TensorRT for RTX reads float.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto as T
from onnx import helper
from support.corpus._case import INT8_ZERO, SCALE, graph_model, node, pair, tensor
from support.trt_verdict import TrtOracle

from qdqtool.linting import rules
from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.reach import Operand, Walk, operand
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

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


HEADER = '<ir_version: 10, opset_import: ["": 21]>'
INPUTS = "int8[1,4] a, int8[1,4] b, int8[1,4] c, float[1,4] x, float one, float computed_scale"
STORED = (
    "float s = {0.5}, float same = {0.5}, float[1] row = {0.5}, float other = {0.25}, float half = {0.5},"
    " float[1,4] each = {1, 2, 3, 4}, float[2] two = {0, 0}, float none = {0}, int64[4] pads = {0, 1, 0, 1},"
    " float16 half16 = {14336}, float16 none16 = {0}"
)
SOURCES = (
    "d = DequantizeLinear (a, s) e = DequantizeLinear (b, same) f = DequantizeLinear (c, other)"
    " g = DequantizeLinear (c, computed_scale) h = DequantizeLinear (b, row)"
)


def context_of(body: str, opset: int = 21) -> RuleContext:
    header = HEADER.replace("21", str(opset))
    text = f"{header} agraph ({INPUTS}) => (float y) <{STORED}> {{ {SOURCES} {body} }}"
    return RuleContext(Model(onnx.parser.parse_model(text)))


def path_of(found: Operand | None) -> list[str] | None:
    """The output of the DQ and those of the operators behind it, in the order of the data."""
    if found is None:
        return None
    return [found.dequantize.node.proto.output[0], *(each.proto.output[0] for each in reversed(found.between))]


def walked(body: str) -> list[str] | None:
    """The path to the tensor ``t``, where no kernel pads."""
    context = context_of(body)
    return path_of(operand(Walk(context.index), context.view.main.values["t"]))


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ("t = DequantizeLinear (a, s)", ["t"]),
        ("t = QuantizeLinear (d, s)", None),
        ("t = Relu (d)", None),
        ("t = Neg (x)", None),
        ("t = Neg (nowhere)", None),
        ("r = Neg (d) t = Abs (r)", ["d", "r", "t"]),
        ("t = ReduceMax (d)", ["d", "t"]),
        ("t = Reshape (d, pads)", ["d", "t"]),
        ("t = Softmax (d)", None),
        # A scale is multiplied with one constant number.
        ("t = Mul (d, half)", ["d", "t"]),
        ("t = Mul (d, row)", ["d", "t"]),
        ("t = Mul (half, d)", ["d", "t"]),
        ("t = Div (d, half)", ["d", "t"]),
        ("t = Div (half, d)", None),
        ("t = Mul (d, each)", None),
        ("t = Mul (each, d)", None),
        ("t = Mul (d, two)", None),
        ("t = Mul (d, one)", None),
        ("t = Mul (one, d)", None),
        ("t = Mul (d, d)", None),
        ("t = Mul (d)", None),
        ("t = Mul (nowhere, d)", None),
        # Codes of equal scales are joined.
        ("t = Concat <axis = 1> (d, e)", ["d", "t"]),
        ("t = Concat <axis = 1> (e, d)", ["e", "t"]),
        ("t = Concat <axis = 1> (d, h)", ["d", "t"]),
        ("t = Concat <axis = 1> (d)", ["d", "t"]),
        ("r = Neg (d) t = Concat <axis = 1> (r, e)", ["d", "r", "t"]),
        ("r = Neg (e) k = Concat <axis = 1> (d, r) t = Abs (k)", ["d", "k", "t"]),
        ("t = Concat <axis = 1> (d, f)", None),
        ("t = Concat <axis = 1> (d, e, f)", None),
        ("t = Concat <axis = 1> (d, f, e)", None),
        ("t = Concat <axis = 1> (f, d, e)", None),
        ("t = Concat <axis = 1> (d, g)", None),
        ("t = Concat <axis = 1> (g, g)", ["g", "t"]),
        ("t = Concat <axis = 1> (d, x)", None),
        ("t = Concat <axis = 1> (x, d)", None),
        ("t = Concat <axis = 1> (d, nowhere)", None),
        ("t = Concat <axis = 1> ()", None),
        ("t = Max (d, none)", None),
        # Padding with values of the tensor; zeros only where the kernel pads with them.
        ('t = Pad <mode = "reflect"> (d, pads)', ["d", "t"]),
        ('t = Pad <mode = "edge"> (d, pads)', ["d", "t"]),
        ('t = Pad <mode = "constant"> (d, pads)', None),
        ("t = Pad (d, pads)", None),
    ],
)
def test_codes_are_followed_back_to_their_dq(body: str, path: list[str] | None):
    assert walked(body) == path


@pytest.mark.parametrize(
    ("pad", "carried"),
    [
        ("Pad (d, pads)", True),
        ("Pad (d, pads, none)", True),
        ("Pad (d, pads, none16)", True),
        ("Pad (d, pads, half)", False),
        ("Pad (d, pads, half16)", False),
        ("Pad (d, pads, two)", False),
        ("Pad (d, pads, one)", False),
        ('Pad <mode = "reflect"> (d, pads, half)', True),
        ('Pad <mode = "constant"> (d, pads, none)', True),
    ],
)
def test_padding_of_a_convolution_with_zeros_is_its_own(pad: str, carried: bool):
    found = context_of(f"t = {pad} y = Conv (t, each)").products[0].left

    assert path_of(found) == (["d", "t"] if carried else None)


@pytest.mark.parametrize(("value", "carried"), [("", True), (", value = 0.0", True), (", value = 0.5", False)])
def test_below_opset_11_the_value_of_padding_is_an_attribute(value: str, carried: bool):
    context = context_of(f"t = Pad <pads = [0, 1, 0, 1]{value}> (d) y = Conv (t, each)", opset=10)

    assert path_of(context.products[0].left) == (["d", "t"] if carried else None)


@pytest.mark.parametrize(("value", "carried"), [(0.0, True), (0.5, False)])
@pytest.mark.parametrize("elem_type", [T.FLOAT, T.FLOAT16])
@pytest.mark.parametrize("raw", [True, False])
def test_the_value_of_padding_is_read_however_it_is_stored(elem_type: int, raw: bool, value: float, carried: bool):
    context = context_of("t = Pad (d, pads, half) y = Conv (t, each)")
    stored = tensor("half", value, elem_type) if raw else helper.make_tensor("half", elem_type, [], [value])
    context.view.main.values["half"].initializer.CopyFrom(stored)

    assert path_of(context.products[0].left) == (["d", "t"] if carried else None)


@pytest.mark.parametrize("body", ["t = Concat <axis = 1> (d, f)", "t = Pad (d, pads, other)"])
def test_behind_a_constant_that_cannot_be_read_nothing_is_known(body: str):
    context = context_of(f"{body} y = Conv (t, each)")
    context.view.main.values["other"].initializer.CopyFrom(onnx.TensorProto(name="other", data_type=1, raw_data=b"ab"))

    assert context.products[0].left is None


@pytest.mark.parametrize(("length", "reached"), [(63, True), (64, False)])
def test_63_operators_are_followed(length: int, reached: bool):
    steps = [f"{behind} = Neg ({front})" for front, behind in itertools.pairwise(["d", *numbered(length)])]

    assert (walked(" ".join(steps)) is not None) == reached


@pytest.mark.parametrize(("depth", "reached"), [(3, True), (4, False)])
@pytest.mark.parametrize("first", [True, False])
def test_3_joins_in_a_row_are_followed(first: bool, depth: int, reached: bool):
    steps = [
        f"{behind} = Max ({front}, d)" if first else f"{behind} = Max (d, {front})"
        for front, behind in itertools.pairwise(["d", *numbered(depth)])
    ]

    assert (walked(" ".join(steps)) is not None) == reached


def numbered(count: int) -> list[str]:
    """Names of tensors in a row; the last one is ``t``."""
    return [*(f"t{index}" for index in range(1, count)), "t"]


ORDERS = [list(order) for order in itertools.permutations(range(3))]


@pytest.mark.parametrize("first", ORDERS)
@pytest.mark.parametrize("second", ORDERS)
def test_an_axis_is_followed_through_transposes(first: list[int], second: list[int]):
    context = context_of(
        f"p = Transpose <perm = {first}> (d) r = Neg (p) m = Mul (half, r) t = Transpose <perm = {second}> (m)"
    )
    found = operand(Walk(context.index), context.view.main.values["t"])
    extents = np.zeros((2, 3, 4)).transpose(first).transpose(second).shape

    assert [extents[found.axis_here(axis, 3)] for axis in range(3)] == [2, 3, 4]


@pytest.mark.parametrize(
    "body", ["t = Reshape (d, pads)", "r = Reshape (d, pads) t = Reshape (r, pads)", "t = ReduceMax (d)"]
)
def test_behind_other_operators_an_axis_is_not_known(body: str):
    context = context_of(body)

    assert operand(Walk(context.index), context.view.main.values["t"]).axis_here(0, 2) is None
