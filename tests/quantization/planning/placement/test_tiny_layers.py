"""Layers that are too small to gain from int8 stay float beside larger ones, and the linter agrees."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.placed import place, proposal
from support.small import make_model, nodes_of

from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.placement import Selection


def three_products(middle: int) -> onnx.ModelProto:
    """x[1,16] -> MatMul(16 x middle) -> Relu -> MatMul(middle x 4) -> MatMul(4 x 4) -> y."""
    random = np.random.default_rng(5)
    weights = {
        "w": random.normal(size=(16, middle)).astype(np.float32),
        "v": random.normal(size=(middle, 4)).astype(np.float32),
        "u": random.normal(size=(4, 4)).astype(np.float32),
    }
    nodes = nodes_of("[first] a = MatMul (x, w)  b = Relu (a)  [second] c = MatMul (b, v)  [third] y = MatMul (c, u)")
    return make_model(nodes, {"x": (1, 16)}, {"y": (1, 4)}, weights)


def three_convs() -> onnx.ModelProto:
    """x[1,3,4,4] -> Conv 3 to 16 -> Conv 16 to 4 -> Conv 4 to 4 -> y, all 1x1."""
    random = np.random.default_rng(5)
    channels = (3, 16, 4, 4)
    weights = {f"w{i}": random.normal(size=(channels[i + 1], channels[i], 1, 1)).astype(np.float32) for i in range(3)}
    names = ("x", "a", "b", "y")
    nodes = [helper.make_node("Conv", [names[i], f"w{i}"], [names[i + 1]], name=f"conv{i}") for i in range(3)]
    return make_model(nodes, {"x": (1, 3, 4, 4)}, {"y": (1, 4, 4, 4)}, weights)


@pytest.mark.parametrize(("middle", "left"), [(16, ["second", "third"]), (15, [])])
def test_a_product_with_a_short_side_stays_float_beside_larger_ones(middle: int, left: list[str]) -> None:
    found = proposal(three_products(middle))
    assert [skip.node for skip in found.skipped] == left
    assert all(skip.reason.on_request and "and 4 output channels" in skip.reason.text for skip in found.skipped)


def test_a_convolution_stays_float_only_where_both_sides_are_short() -> None:
    assert [skip.node for skip in proposal(three_convs()).skipped] == ["conv2"]


def test_what_the_user_asks_for_is_quantized_all_the_same() -> None:
    found = proposal(three_products(16), Selection(op_types_to_quantize=("MatMul",)))
    assert found.skipped == ()


def test_the_linter_has_nothing_to_say_of_the_result(tmp_path: Path) -> None:
    assert validate_model(Model(place(three_products(16), tmp_path)), ["tensorrt"]).findings == ()
