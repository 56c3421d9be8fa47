"""Shape arithmetic becomes initializers; data, outputs of the graph and dead code stay."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from support.small import run

from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.specialize import MAX_ELEMENTS, fold_shape_arithmetic

HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'


def folded(text: str, **stored: np.ndarray) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    proto = parser.parse_model(HEAD + text)
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    before = proto.SerializeToString(deterministic=True)
    after = fold_shape_arithmetic(Model(proto)).model.proto
    assert proto.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(after)
    feeds = {
        value.name: np.ones([dim.dim_value for dim in value.type.tensor_type.shape.dim], np.float32)
        for value in proto.graph.input
    }
    for old, new in zip(run(proto, feeds), run(after, feeds), strict=True):
        assert old.dtype == new.dtype
        assert np.array_equal(old, new)
    return proto, after


def op_types(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def stored(proto: onnx.ModelProto) -> dict[str, list]:
    return {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in proto.graph.initializer}


def test_shape_arithmetic_behind_data_is_folded() -> None:
    _, after = folded(
        """g (float[2,3] x) => (float[3,2] y) <int64[2] turned = {1, 0}> {
            r = Relu (x)
            s = Shape (r)
            n = Gather (s, turned)
            y = Reshape (r, n)
        }"""
    )
    assert op_types(after) == ["Relu", "Reshape"]
    assert stored(after) == {"n": [3, 2]}


@pytest.mark.parametrize("size", [MAX_ELEMENTS, MAX_ELEMENTS + 1])
def test_large_results_are_data_and_later_small_ones_are_folded(size) -> None:
    _, after = folded(
        f"""g (float[{size}] x) => (float[{size}] y, int64 z) <int64 one = {{1}}, int64[1] first = {{0}}> {{
            large = Add (many, one)
            f = Cast <to = 1> (large)
            y = Mul (x, f)
            s = Shape (x)
            small = Gather (s, first)
            t = Squeeze (small, first)
            z = Identity (t)
        }}""",
        many=np.arange(size),
    )
    assert ("large" in stored(after)) == (size <= MAX_ELEMENTS)
    assert stored(after)["t"] == size
    assert [name for name in op_types(after) if name not in ("Cast", "Mul", "Identity")] == (
        [] if size <= MAX_ELEMENTS else ["Add"]
    )


def test_an_output_of_the_graph_keeps_its_node() -> None:
    _, after = folded(
        """g (float[2,3] x) => (int64[1] n, int64[1] y) <int64[1] first = {0}, int64[1] two = {2}> {
            s = Shape (x)
            n = Gather (s, first)
            m = Mul (n, two)
            y = Add (m, two)
        }"""
    )
    producers = {node.output[0]: node.op_type for node in after.graph.node}
    assert producers == {"n": "Gather", "y": "Add"}
    assert stored(after)["s"] == [2, 3]
    assert stored(after)["m"] == [4]


def test_dead_arithmetic_stays_what_it_is() -> None:
    before, after = folded(
        """g (float[2,3] x) => (float[2,3] y) <int64[1] two = {2}> {
            s = Shape (x)
            dead = Mul (s, two)
            y = Relu (x)
        }"""
    )
    assert after.graph.node == before.graph.node
    assert stored(after) == {"two": [2]}


def test_a_result_with_several_readers_is_stored_once() -> None:
    _, after = folded(
        """g (float[2,3] x) => (float[3,2] y, float[6] z) <int64[1] first = {0}, int64[1] second = {1}> {
            s = Shape (x)
            rows = Gather (s, first)
            columns = Gather (s, second)
            size = Mul (rows, columns)
            turned = Concat <axis = 0> (columns, rows)
            z = Reshape (x, size)
            y = Reshape (x, turned)
        }"""
    )
    assert op_types(after) == ["Reshape", "Reshape"]
    assert stored(after) == {"turned": [3, 2], "size": [6]}


@pytest.mark.parametrize("position", range(6))
def test_float_results_of_a_shape_and_of_constants_are_folded(position) -> None:
    names = [f"w{number}" for number in range(5)]
    names.insert(position, "f")
    steps = "\n".join(
        f"a{number} = {'Add' if number % 2 else 'Mul'} ({'w0' if number == 0 else f'a{number - 1}'}, {name})"
        for number, name in enumerate(names)
    )
    arrays = {f"w{number}": np.array(number + 1.5, np.float32) for number in range(5)}
    _, after = folded(
        f"""g (float[3,4] x) => (float[3,4] y) <int64 one = {{1}}> {{
            s = Shape (x)
            width = Gather (s, one)
            f = Cast <to = 1> (width)
            {steps}
            y = Div (x, a5)
        }}""",
        **arrays,
    )
    assert op_types(after) == ["Div"]
    assert list(stored(after)) == ["a5"]


def test_float_results_of_constants_alone_are_data() -> None:
    before, after = folded(
        """g (float[3,4] x) => (float[3,4] y) <float a = {2}, float b = {3}> {
            c = Mul (a, b)
            y = Div (x, c)
        }"""
    )
    assert after == before


def test_arithmetic_that_reads_data_is_not_folded() -> None:
    before, after = folded(
        """g (float[3,4] x) => (float[3,4] y) <int64 one = {1}> {
            c = Cast <to = 7> (x)
            d = Add (c, one)
            e = Cast <to = 1> (d)
            y = Div (x, e)
        }"""
    )
    assert after == before
