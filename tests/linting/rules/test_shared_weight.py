"""The rule on weights that groups of products share, against TensorRT's builder, and its fix."""

from itertools import chain, pairwise

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.fixing import assert_same_bits, carried_out, located, read, refusal
from support.trt_verdict import TrtOracle

CODES = {
    "int8": ("DequantizeLinear <axis = 1>", np.int8, (64,)),
    "int4": ("DequantizeLinear <axis = 0, block_size = 32>", "int4", (2, 64)),
}

LAYERS = [
    ("ab ab", True),
    ("ab ac", True),
    ("ab bc", True),
    ("abc ade", True),
    ("aa", False),
    ("ab a", False),
    ("a a", False),
    ("ab cd", False),
]
"""The weights that the products of each layer read, and whether the builder fails."""


def layers(words: str, code: str = "int8") -> onnx.ModelProto:
    """Layers one behind the other: products with these weights, which are added, and a Tanh."""
    node, dtype, shape = CODES[code]
    lines, x = [f"d{name} = {node} (w{name}, s{name})" for name in sorted({*words} - {" "})], "x"
    for number, group in enumerate(words.split()):
        lines += [f"p{number}{place} = MatMul ({x}, d{name})" for place, name in enumerate(group)]
        lines += [f"s{number} = Sum ({', '.join(f'p{number}{place}' for place in range(len(group)))})"]
        lines += [f"r{number} = Tanh (s{number})"]
        x = f"r{number}"
    body = "\n".join(lines)
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[8,64] x) => (float[8,64] {x}) {{ {body} }}'
    model, random = onnx.parser.parse_model(text), np.random.default_rng(5)
    for name in sorted({*words} - {" "}):
        codes = random.integers(-7, 8, (64, 64)).astype(onnx.helper.tensor_dtype_to_np_dtype(_type(dtype)))
        scale = random.uniform(0.01, 0.02, shape).astype(np.float32)
        stored = {f"w{name}": numpy_helper.from_array(codes, f"w{name}"), f"s{name}": numpy_helper.from_array(scale)}
        stored[f"s{name}"].name = f"s{name}"
        model.graph.initializer.extend(stored.values())
    return model


def _type(dtype: object) -> int:
    return onnx.TensorProto.INT4 if dtype == "int4" else onnx.TensorProto.INT8


@pytest.mark.parametrize(("words", "fails"), LAYERS)
def test_where_groups_share_a_weight(words: str, fails: bool) -> None:
    found = located("QT415", read(layers(words)))
    assert bool(found) == fails
    assert located("QT415", read(layers(words)), "tensorrt") == []


@pytest.mark.builder
@pytest.mark.parametrize(
    ("code", "words", "fails"),
    [*(("int8", *each) for each in LAYERS), ("int4", "ab ac", True), ("int4", "ab a", False)],
)
def test_it_says_what_the_builder_does(oracle: TrtOracle, words: str, fails: bool, code: str) -> None:
    context = read(layers(words, code))
    assert oracle.judge(context.model.proto).accepted == (not fails)
    fixed = context
    while found := located("QT415", fixed):
        fixed = read(carried_out(fixed, found[0][1].fixes[0]))
    assert oracle.judge(fixed.model.proto).accepted
    assert_same_bits(context, fixed.model.proto, x=np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64))


def test_the_message_names_both_activations() -> None:
    ((finding, _),) = located("QT415", read(layers("ab ac")))
    assert finding.message == (
        "products of 'x' and of 'r0' share the weight 'wa', and each of the two activations has other products too"
    )
    assert finding.node == "MatMul -> p10"


def test_products_whose_activation_is_quantized_share_what_they_like() -> None:
    model = layers("ab ab")
    for before, behind in pairwise(("x", "r0")):
        _quantize(model, before)
        _quantize(model, behind)
    assert located("QT415", read(model)) == []


def _quantize(model: onnx.ModelProto, name: str) -> None:
    readers = [node for node in model.graph.node if node.op_type == "MatMul" and node.input[0] == name]
    for node in readers:
        node.input[0] = f"{name}_d"
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.1), f"{name}_s"))
    model.graph.initializer.append(numpy_helper.from_array(np.int8(0), f"{name}_z"))
    pair = [
        onnx.helper.make_node("QuantizeLinear", [name, f"{name}_s", f"{name}_z"], [f"{name}_q"]),
        onnx.helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_s", f"{name}_z"], [f"{name}_d"]),
    ]
    nodes = [*model.graph.node]
    first = nodes.index(readers[0])
    del model.graph.node[:]
    model.graph.node.extend(chain(nodes[:first], pair, nodes[first:]))


def test_a_weight_behind_a_transpose_is_not_copied() -> None:
    model = layers("ab ab")
    transposed = onnx.helper.make_node("Transpose", ["da"], ["ta"])
    place = next(index for index, node in enumerate(model.graph.node) if node.op_type == "MatMul")
    model.graph.node.insert(place, transposed)
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] == "da":
            node.input[1] = "ta"
    context = read(model)
    (_, fault), _ = located("QT415", context)
    assert refusal(context, fault.fixes[0]) == "other operators stand between the DQ and the product"
