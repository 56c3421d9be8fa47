"""Which operands of a node may be float16, judged by onnx's inference on the same node with these operands in it."""

import onnx
import pytest
from onnx import TensorProto, helper, parser

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.options import HalfType
from qdqtool.models.transforms.half.operands import Operands, TypeRule, index_arithmetic, operands_of

HEAD = '<ir_version: 13, opset_import: ["": 26, "mine": 1]>'
INPUTS = {
    "x": "float[2,4]",
    "z": "float[2,4]",
    "v": "float[4]",
    "bias": "float[4]",
    "mean": "float[4]",
    "var": "float[4]",
    "scalar": "float",
    "half": "float16[2,4]",
    "i": "int64[2,4]",
    "n": "int64[2]",
    "one": "int64",
    "flag": "bool[2,4]",
    "condition": "bool",
    "codes": "int8[2,4]",
    "zero": "int8",
    "image": "float[1,1,4,4]",
    "grid": "float[1,2,2,2]",
    "roi": "float[0]",
    "scales": "float[4]",
}


def model_of(node: str) -> onnx.ModelProto:
    inputs = ", ".join(f"{kind} {name}" for name, kind in INPUTS.items())
    return parser.parse_model(f"{HEAD} g ({inputs}) => () {{ {node} }}")


def found(model: onnx.ModelProto) -> Operands | None:
    index = ModelIndex.of(Model(model))
    return operands_of(index.view.main.nodes[0], index.types, HalfType.FP16)


def outputs_in_half(model: onnx.ModelProto, halved: frozenset[int]) -> frozenset[int]:
    """The outputs that onnx infers to be float16 once these inputs are."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    node = changed.graph.node[0]
    types = {value.name: value.type.tensor_type for value in changed.graph.input}
    for index in halved:
        types[node.input[index]].elem_type = TensorProto.FLOAT16
    inferred = onnx.shape_inference.infer_shapes(changed, check_type=True, strict_mode=True).graph.value_info
    half = {value.name for value in inferred if value.type.tensor_type.elem_type == TensorProto.FLOAT16}
    return frozenset(index for index, name in enumerate(node.output) if name in half)


@pytest.mark.parametrize(
    ("node", "inputs", "outputs"),
    [
        ("y = Sigmoid (x)", {0}, {0}),
        ("y = Add (x, z)", {0, 1}, {0}),
        ("y = Greater (x, z)", {0, 1}, ()),
        ("y = Where (flag, x, z)", {1, 2}, {0}),
        ("y = Sum (x, z, x, z)", {0, 1, 2, 3}, {0}),
        ("y = Clip (x, , scalar)", {0, 2}, {0}),
        ("y, k = TopK (x, n)", {0}, {0}),
        ("a, b = Split <num_outputs = 2> (x)", {0}, {0, 1}),
        ("y = Pow (x, v)", {0, 1}, {0}),
        ("y = CastLike (i, x)", {1}, {0}),
        ("y, m, d = LayerNormalization (x, v, v)", {0, 1, 2}, {0}),
        ("y, m, d = BatchNormalization <training_mode = 1> (x, v, bias, mean, var)", {0, 1, 2, 3, 4}, {0, 1, 2}),
        ("y = Resize (image, roi, scales)", {0}, {0}),
        ("y = MelWeightMatrix (one, one, one, scalar, scalar)", {3, 4}, ()),
    ],
)
def test_an_operator_computes_in_either_type(node: str, inputs: set[int], outputs: set[int]) -> None:
    model, own = model_of(node), Operands(TypeRule.COMPUTES, frozenset(inputs), frozenset(outputs))
    assert found(model) == own
    assert outputs_in_half(model, own.inputs) == own.outputs


@pytest.mark.parametrize("node", ["y = ArgMax (x)", "y = Shape (x)", "y = IsNaN (x)", "y = CastLike (x, i)"])
def test_a_node_that_returns_no_float_reads_either_type(node: str) -> None:
    model = model_of(node)
    assert found(model) == Operands(TypeRule.FOLLOWS, inputs=frozenset({0}))
    assert outputs_in_half(model, frozenset({0})) == frozenset()


@pytest.mark.parametrize(
    ("node", "own"),
    [
        ("y = Cast <to = 7> (x)", Operands(TypeRule.FOLLOWS, inputs=frozenset({0}))),
        ("y = Cast <to = 10> (x)", Operands(TypeRule.FOLLOWS, inputs=frozenset({0}))),
        ("y = Cast <to = 1> (x)", Operands(TypeRule.MAKES, inputs=frozenset({0}), outputs=frozenset({0}))),
        ("y = Cast <to = 1> (i)", Operands(TypeRule.MAKES, outputs=frozenset({0}))),
        ("y = ConstantOfShape (n)", Operands(TypeRule.MAKES, outputs=frozenset({0}))),
        ("y = QuantizeLinear (x, scalar, zero)", Operands(TypeRule.FOLLOWS, inputs=frozenset({0}))),
        ("y = DequantizeLinear (codes, scalar, zero)", Operands(TypeRule.MAKES, outputs=frozenset({0}))),
    ],
)
def test_casts_and_pairs_go_with_their_neighbours(node: str, own: Operands) -> None:
    assert found(model_of(node)) == own


@pytest.mark.parametrize(
    "node",
    [
        "y = Add (i, i)",
        "y = Relu (half)",
        "y = Cast <to = 7> (i)",
        "y = Cast <to = 10> (i)",
        "y = Constant <value_float = 0.5> ()",
        "y = ConstantOfShape <value = int64[1] {3}> (n)",
    ],
)
def test_a_node_without_float32_has_no_operands(node: str) -> None:
    assert found(model_of(node)) is None


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ("y = NonMaxSuppression (x, z)", "ONNX defines NonMaxSuppression for float32 and not for float16"),
        ("y = Range (scalar, scalar, scalar)", "ONNX defines Range for float32 and not for float16"),
        ("y = BitCast <to = 6> (x)", "it reads the bits of a float32"),
        ("y = MeanVarianceNormalization (image)", "TensorRT for RTX refuses it in float16"),
        ("y = EyeLike (x)", "its output may take the type of its input"),
        (
            "y = GridSample (image, grid)",
            "it reads positions in an image: for 640 pixels, the steps of float16 are up to half a pixel",
        ),
        ("y = mine.Relu (x)", "it is not an ONNX operator, so the types that it supports are unknown"),
        ("y = NoSuchOperator (x)", "it is not an ONNX operator, so the types that it supports are unknown"),
        ("y = SplitToSequence (x)", "'y' is no tensor of a known type"),
        (
            """y = If (condition) <then_branch = t () => (float[2,4] a) { a = Relu (x) },
                                 else_branch = e () => (float[2,4] b) { b = Neg (x) }>""",
            "the inputs and outputs of the bodies of If stay float32",
        ),
    ],
)
def test_other_nodes_stay_float32_and_say_why(node: str, problem: str) -> None:
    assert found(model_of(node)) == Operands(TypeRule.COMPUTES, problem=problem)


def test_nodes_of_local_functions_stay_float32() -> None:
    """Also a Cast whose type the call says."""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "mine": 1]>'
        "g (float[2] x) => (float[2] y) { y = mine.f <to = 1> (x) }"
        '<domain: "mine", opset_import: ["": 21]> f <to> (a) => (c) { b = Relu (a) c = Cast <to: int = @to> (b) }'
    )
    index = ModelIndex.of(Model(model))
    inside = [operands_of(node, index.types, HalfType.FP16) for node in index.view.nodes() if node.scope.in_function]
    assert inside == [Operands(TypeRule.COMPUTES, problem="it is in a local function")] * 2


GRAPH = """<ir_version: 10, opset_import: ["": 21, "mine": 1]>
g (float[2] x, float[2,2] m, int64[2] i, float[1,1,2,2] image, bool flag) => (float[2] y)
<float half = {0.5}, float[0] roi, float scale = {0.5}, int8 zero = {0}> """


def indices_of(nodes: str, outputs: str = "") -> set[str]:
    """The nodes that compute indices, by what they make."""
    model = parser.parse_model(f"{GRAPH} {{ {nodes} }}")
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs.split())
    index = ModelIndex.of(Model(onnx.shape_inference.infer_shapes(model)))
    operands = {
        node: own for node in index.view.nodes() if (own := operands_of(node, index.types, HalfType.FP16)) is not None
    }
    return {node.key[0] for node in index_arithmetic(index, operands)}


@pytest.mark.parametrize("kind", ["int64", "int32", "int8", "uint8", "uint64"])
def test_what_is_cast_to_integers_counts(kind: str) -> None:
    to = TensorProto.DataType.Value(kind.upper())
    assert indices_of(f"a = Mul (x, half) f = Floor (a) c = Cast <to = {to}> (f)") == {"a", "f"}


@pytest.mark.parametrize("kind", ["float", "float16", "double", "bool", "bfloat16"])
def test_what_is_cast_to_other_types_does_not(kind: str) -> None:
    to = TensorProto.DataType.Value(kind.upper())
    assert indices_of(f"a = Mul (x, half) f = Floor (a) c = Cast <to = {to}> (f)") == set()


@pytest.mark.parametrize(
    ("nodes", "indices"),
    [
        # Inputs that are float32 by the definition of an operator.
        ("a = Mul (x, half) s = Relu (image) b = Concat <axis = 0> (a, a) y = Resize (s, roi, b)", "a b"),
        ("a = Relu (image) y = Resize (a, roi, x)", ""),
        ("a = Mul (x, half) s = Relu (image) y = Resize (s, a, x)", "a"),
        # Both results of a node, or both readers of a result.
        ("a, b = Split <num_outputs = 2> (x) c = Cast <to = 7> (a) d = Cast <to = 7> (b)", "a"),
        ("a, b = Split <num_outputs = 2> (x) c = Cast <to = 7> (a) y = Relu (b)", ""),
        ("a = Mul (x, half) c = Cast <to = 7> (a) d = Cast <to = 7> (a)", "a"),
        ("a = Mul (x, half) c = Cast <to = 7> (a) y = Relu (a)", ""),
        ("a = Mul (x, half) c = Cast <to = 7> (a) y = Cast <to = 10> (a)", ""),
        ("a, b = Split <num_outputs = 2> (x) c = Cast <to = 7> (a)", "a"),
        # A layer computes data, which a Cast may round later.
        ("a = MatMul (m, x) c = Cast <to = 7> (a)", ""),
        ("a = MatMul (m, x) b = Floor (a) c = Cast <to = 7> (b)", "b"),
        ("a = Softmax (x) c = Cast <to = 7> (a)", ""),
        # A shape is the same in every type.
        ("a = Mul (x, half) b = Shape (a) d = Size (a) c = Cast <to = 7> (a)", "a"),
        ("a = Mul (x, half) b = Shape (a) d = Size (a) y = Identity (x)", ""),
        # What reads floats and makes none, or has no type of its own.
        ("a = Mul (x, half) b = ArgMax (a) y = Identity (x)", ""),
        ("a = Mul (x, half) b = Greater (a, half) y = Identity (x)", ""),
        ("a = Mul (x, half) c = Cast <to = 7> (a) d = Add (c, i)", "a"),
        ("a = Cast <to = 1> (i) c = Cast <to = 7> (a)", ""),
        ("q = QuantizeLinear (x, scale, zero) d = DequantizeLinear (q, scale, zero) c = Cast <to = 7> (d)", ""),
        ("a = Mul (x, half) q = QuantizeLinear (x, a, zero)", ""),
        # What nothing reads, and what reads it without a known type.
        ("a = Mul (x, half) y = Identity (x)", ""),
        ("a = Mul (x, half) c = mine.Round (a)", ""),
        ("a = Mul (x, half) c = mine.Cast <to = 7> (a)", ""),
        (
            """a = Mul (x, half)
            y = If (flag) <then_branch = t () => (float[2] b) { b = Relu (a) },
                           else_branch = e () => (float[2] c) { c = Neg (a) }>""",
            "",
        ),
        (
            """a = Mul (x, half)
            y = If (flag) <then_branch = t () => (int64[2] b) { b = Cast <to = 7> (a) },
                           else_branch = e () => (int64[2] c) { d = Floor (a) c = Cast <to = 7> (d) }>""",
            "a d",
        ),
    ],
)
def test_arithmetic_counts_whose_results_all_become_indices(nodes: str, indices: str) -> None:
    assert indices_of(nodes) == set(indices.split())


@pytest.mark.parametrize("outputs", ["a", "b", "a b"])
def test_what_the_model_returns_is_data(outputs: str) -> None:
    nodes = "a, b = Split <num_outputs = 2> (x) c = Cast <to = 7> (a) d = Cast <to = 7> (b)"
    assert indices_of(nodes) == {"a"}
    assert indices_of(nodes, outputs) == set()
