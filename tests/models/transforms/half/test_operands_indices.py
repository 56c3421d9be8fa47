"""Which float arithmetic ends in indices and shapes only."""

import onnx
import pytest
from onnx import TensorProto, helper, parser

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.options import HalfType
from qdqtool.models.transforms.half.operands import index_arithmetic, operands_of

GRAPH = """<ir_version: 10, opset_import: ["": 21, "mine": 1]>
g (float[2] x, float[2,2] m, int64[2] i, float[1,1,2,2] image, bool flag) => (float[2] y)
<float half = {0.5}, float[0] roi, float scale = {0.5}, int8 zero = {0}> """


def found(nodes: str, outputs: str = "") -> set[str]:
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
    assert found(f"a = Mul (x, half) f = Floor (a) c = Cast <to = {to}> (f)") == {"a", "f"}


@pytest.mark.parametrize("kind", ["float", "float16", "double", "bool", "bfloat16"])
def test_what_is_cast_to_other_types_does_not(kind: str) -> None:
    to = TensorProto.DataType.Value(kind.upper())
    assert found(f"a = Mul (x, half) f = Floor (a) c = Cast <to = {to}> (f)") == set()


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
    assert found(nodes) == set(indices.split())


@pytest.mark.parametrize("outputs", ["a", "b", "a b"])
def test_what_the_model_returns_is_data(outputs: str) -> None:
    nodes = "a, b = Split <num_outputs = 2> (x) c = Cast <to = 7> (a) d = Cast <to = 7> (b)"
    assert found(nodes) == {"a"}
    assert found(nodes, outputs) == set()
