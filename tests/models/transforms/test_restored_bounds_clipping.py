"""The node that limits a tensor, as each opset writes it."""

import math

import numpy as np
import pytest
from onnx import helper
from support.small import make_model, run

from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.restored_bounds import clipping_edits, operator_for


@pytest.mark.parametrize("opset", [10, 11, 17])
@pytest.mark.parametrize("bounds", [(0, math.inf), (0, 6), (-1, 1), (-math.inf, 2), (-2, math.inf)])
def test_what_lies_between_the_bounds_passes(bounds: tuple[float, float], opset: int) -> None:
    model = Model(make_model([helper.make_node("Neg", ["x"], ["n"])], {"x": (5,)}, {"y": (5,)}, {}, opset=opset))
    view = GraphView(model)
    edits = clipping_edits(Namer(view), view.main, ("n", "y"), bounds, 1)
    proto = apply_edits(model, edits).proto
    x = np.array([-9, -0.5, 0, 1.5, 9], np.float32)
    assert np.array_equal(run(proto, {"x": x})[0], np.clip(-x, *bounds))
    assert [node.op_type for node in proto.graph.node] == ["Neg", operator_for(bounds)]
