"""Layers that are too small to gain from int8 stay float beside larger ones, and the linter agrees."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.placed import place, proposal
from support.small import make_model

from qdqtool.graph.model import Model
from qdqtool.pipeline.placement import Selection
from qdqtool.pipeline.validate import validate_model


def two_products(middle: int) -> onnx.ModelProto:
    """x[1,8] -> MatMul(8 x middle) -> Relu -> MatMul(middle x 4) -> y."""
    random = np.random.default_rng(5)
    weights = {
        "w": random.normal(size=(8, middle)).astype(np.float32),
        "v": random.normal(size=(middle, 4)).astype(np.float32),
        "u": random.normal(size=(4, 4)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["c"], name="second"),
        helper.make_node("MatMul", ["c", "u"], ["y"], name="third"),
    ]
    return make_model(nodes, {"x": (1, 8)}, {"y": (1, 4)}, weights)


@pytest.mark.parametrize(("middle", "left"), [(16, ["third"]), (15, [])])
def test_only_what_is_tiny_on_both_sides_stays_float(middle: int, left: list[str]) -> None:
    found = proposal(two_products(middle))
    assert [skip.node for skip in found.skipped] == left
    assert all("4 input and 4 output channels" in skip.reason for skip in found.skipped)


def test_what_the_user_asks_for_is_quantized_all_the_same() -> None:
    found = proposal(two_products(16), Selection(op_types_to_quantize=("MatMul",)))
    assert found.skipped == ()


def test_the_linter_has_nothing_to_say_of_the_result(tmp_path: Path) -> None:
    assert validate_model(Model(place(two_products(16), tmp_path)), ["tensorrt"]).findings == ()
