"""What neither ONNX Runtime nor our own core runs is refused with the way on."""

import onnx
import pytest

from qdqtool.errors import CapabilityError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running.own_support import plan_split


def test_a_placeholder_of_an_unfinished_export_is_refused_with_the_way_on():
    index = ModelIndex.of(
        Model(
            onnx.parser.parse_model(
                """<ir_version: 10, opset_import: ["": 21, "trt": 1]>
                agraph (float[2,64] x) => (float[2,64] y) { y = trt.TRT_FP4QDQ <block_size = 16> (x) }"""
            )
        )
    )
    with pytest.raises(CapabilityError, match="TRT_FP4QDQ") as refused:
        plan_split(index)
    assert "modelopt.onnx.export" in str(refused.value.hint)
