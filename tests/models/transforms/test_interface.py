"""Baselines whose inputs and outputs have other names or float types."""

import numpy as np
import onnx
import pytest
from support.small import run

from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.interface import Pairing, with_interface_of

HEADER = '<ir_version: 8, opset_import: ["": 17]>\n'
TWO = "agraph (float[2] %s, float[2] %s) => (float[2] %s) { %s = Sub (%s, %s) }"


def model(text: str) -> Model:
    return Model(onnx.parser.parse_model(HEADER + text))


def two(first: str, second: str, output: str) -> Model:
    return model(TWO % (first, second, output, output, first, second))


def test_the_same_interface_is_left_alone():
    own = two("a", "b", "y")
    done = with_interface_of(own, two("a", "b", "y"))
    assert done.model is own
    assert done.report == Pairing()


def test_what_is_called_the_same_belongs_together_in_any_order():
    own = two("a", "b", "y")
    assert with_interface_of(own, two("b", "a", "y")).model is own


def test_other_names_are_paired_by_position_and_the_numbers_stay():
    own = two("a", "b", "y")
    done = with_interface_of(own, two("u", "b", "z"))

    assert done.report == Pairing(inputs={"u": "a"}, outputs={"z": "y"})
    feeds = {"u": np.float32([1, 2]), "b": np.float32([5, 1])}
    onnx.checker.check_model(done.model.proto, full_check=True)
    np.testing.assert_array_equal(run(done.model.proto, feeds)[0], [-4, 1])
    assert [value.name for value in own.proto.graph.input] == ["a", "b"], "the given model is not changed"


@pytest.mark.parametrize(
    "other",
    [
        "agraph (float[2] u) => (float[2] z) { z = Relu (u) }",
        "agraph (float[2] u, int64[2] v) => (float[2] z) { z = Relu (u) }",
        "agraph (float[2] u, float[2,2] v) => (float[2] z) { z = Relu (u) }",
    ],
)
def test_other_numbers_of_inputs_and_other_types_and_ranks_are_not_paired(other: str):
    assert with_interface_of(two("a", "b", "y"), model(other)).report.inputs == {}


def test_a_name_that_an_inner_tensor_has_is_not_given():
    own = model("agraph (float[2] a) => (float[2] y) { z = Relu (a) y = Neg (z) }")
    done = with_interface_of(own, model("agraph (float[2] z) => (float[2] y) { y = Neg (z) }"))
    assert done.model is own
    assert done.report == Pairing()


@pytest.mark.parametrize("name", ["x", "half"])
def test_an_input_of_float16_is_cast_also_for_the_bodies_that_read_it(name: str):
    own = model(
        """agraph (float[2] x, bool c) => (float[2] y) {
            y = If (c) <
                then_branch = t () => (float[2] p) { p = Relu (x) },
                else_branch = e () => (float[2] q) { q = Neg (x) }
            >
        }"""
    )
    other = model(f"agraph (float16[2] {name}, bool c) => (float[2] y) {{ y = Cast <to = 1> ({name}) }}")
    done = with_interface_of(own, other)

    assert done.report.types == {name: ("float32", "float16")}
    feeds = {name: np.float16([1, -2]), "c": np.array(False)}
    np.testing.assert_array_equal(run(done.model.proto, feeds)[0], [-1, 2])
