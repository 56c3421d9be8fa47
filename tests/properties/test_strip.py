"""Strip on random models: the float model computes what the quantized one does without its pairs."""

import onnx
from hypothesis import given
from support.ort_verdict import ort_outputs
from support.random_models import (
    assert_same_outputs,
    brute,
    drawn_feeds,
    float_models,
    quantized_models,
    tried_on,
    whole,
)

from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.strip import Stripped, strip_from


@tried_on(30)
@given(quantized_models())
def test_the_float_model_computes_what_the_quantized_one_does_without_its_pairs(model):
    stripped = strip_from(model)
    proto, feeds = whole(stripped.model), drawn_feeds(model)
    onnx.checker.check_model(proto, full_check=True)
    assert ort_outputs(proto, feeds)
    if not stripped.report.warnings:
        expected = brute.without_pairs(model.proto, restored_bounds(model, stripped.report))
        assert_same_outputs(proto, expected, feeds)


@tried_on(30)
@given(quantized_models())
def test_what_is_left_is_what_the_report_names(model):
    stripped = strip_from(model)
    left = [
        node for node in brute.all_nodes(stripped.model.proto) if node.op_type in {brute.QUANTIZE, brute.DEQUANTIZE}
    ]
    assert sorted(node.op_type for node in left) == sorted(kept.op_type for kept in stripped.report.kept)
    before = brute.counts(model.proto)
    assert (
        len(stripped.report.removed) == before[brute.DEQUANTIZE] - brute.counts(stripped.model.proto)[brute.DEQUANTIZE]
    )
    behind_q = {id(dequantize) for _, dequantize in brute.pairs(stripped.model.proto)}
    assert behind_q == set()
    codes = brute.returned(model.proto)
    kept_codes = {node.output[0] for node in left if node.op_type == brute.QUANTIZE}
    assert kept_codes >= {
        node.output[0]
        for node in brute.all_nodes(model.proto)
        if node.op_type == brute.QUANTIZE and node.output[0] in codes
    }


@tried_on(30)
@given(quantized_models())
def test_the_interface_stays(model):
    stripped = strip_from(model).model.proto.graph
    assert list(stripped.input) == list(model.proto.graph.input)
    assert list(stripped.output) == list(model.proto.graph.output)


@tried_on(20)
@given(float_models())
def test_a_float_model_stays_as_it_is(model):
    stripped = strip_from(model)
    assert stripped.model.proto.SerializeToString(deterministic=True) == model.proto.SerializeToString(
        deterministic=True
    )
    assert stripped.report == Stripped((), (), ())


def restored_bounds(model: Model, report: Stripped) -> dict[str, tuple[float | None, float | None]]:
    """The bounds of every Relu and Clip that the report says was put back, by the codes of its Q."""
    by_label = {node.name or f"{node.op_type} -> {node.output[0]}": node for node in brute.all_nodes(model.proto)}
    return {
        by_label[each.node].output[0]: (0.0, None) if each.op_type == "Relu" else (each.low, each.high)
        for each in report.restored
    }
