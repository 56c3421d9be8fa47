"""Small models as ONNX text."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from qdqtool.linting import rules
from qdqtool.linting.rules import EXAMPLE_HEADER
from qdqtool.models.graph.io.onnx_text import onnx_text

EXAMPLES = [
    pytest.param(example, id=f"{rule.code}-{example.title}")
    for rule in rules.catalogue()
    for example in (*rule.VALID, *rule.INVALID)
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_text_of_an_example_reads_back_as_the_same_model(example: rules.Example):
    model = example.model()

    assert onnx.parser.parse_model(onnx_text(model)) == model


@pytest.mark.parametrize(
    "kind",
    [
        *(TensorProto.FLOAT, TensorProto.INT8, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.BOOL),
        *(TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.INT4),
    ],
)
def test_values_in_raw_data_are_spelled_out(kind: int):
    values = np.array([0, 1, 0, 1]).astype(helper.tensor_dtype_to_np_dtype(kind))
    stored = onnx.numpy_helper.from_array(values, "w")
    model = onnx.parser.parse_model(f"{EXAMPLE_HEADER} g (float x) => (float y) {{ y = Relu (x) }}")
    model.graph.initializer.append(stored)
    (read,) = onnx.parser.parse_model(onnx_text(model)).graph.initializer

    assert stored.raw_data
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(read), values)


def test_the_text_is_tidy():
    text = onnx_text(rules.get("QA206").VALID[0].model())

    assert "<axis = 0, block_size = 2>" in text
    assert "ws = {0.1,0.2,0.3,0.4}" in text
    assert not any(line.endswith(" ") for line in text.splitlines())
