"""Diff on random models: nothing between a model and the same one, and every change of a scale where it was made."""

import numpy as np
import onnx
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import numpy_helper
from support.random_models import brute, quantized_models, tried_on
from support.renamed import renamed, reordered

from qdqtool.jobs.diff import diff_models
from qdqtool.models.diff.report import DiffReport
from qdqtool.models.graph.model import Model


@tried_on(30)
@given(quantized_models())
def test_nothing_between_a_model_and_itself(model):
    assert_no_difference(diff_models(model, Model(brute.copied(model.proto))))


@tried_on(30)
@given(quantized_models())
def test_nothing_between_a_model_and_itself_under_other_names(model):
    assert_no_difference(diff_models(model, Model(renamed(model.proto))))


@tried_on(30)
@given(quantized_models())
def test_nothing_between_a_model_and_itself_in_another_order(model):
    assert_no_difference(diff_models(model, Model(reordered(model.proto))))


@tried_on(30)
@given(st.data(), quantized_models())
def test_a_changed_scale_is_found_at_every_pair_that_has_it(data, model):
    scales = changeable(model.proto)
    assume(scales)
    name = data.draw(st.sampled_from(sorted(scales)))
    report = diff_models(model, Model(with_doubled(model.proto, name)))
    assert {changed.pair.tensor for changed in report.changed} == scales[name]
    assert not report.preserved
    assert report.removed == report.added == report.moved == ()
    for changed in report.changed:
        assert [change.what for change in changed.changes] == ["scale"], changed


def assert_no_difference(report: DiffReport) -> None:
    assert report.removed == report.changed == report.moved == report.added == report.disturbed == ()
    assert report.versions == ()
    assert report.unmatched == 0
    assert report.same == report.pairs_before == report.pairs_after
    assert report.preserved == (report.pairs_before > 0)


def changeable(proto: onnx.ModelProto) -> dict[str, set[str]]:
    """Every stored scale, with the tensors whose pairs have it. Pairs that nothing reads are left out."""
    made_by, constants = brute.producers(proto), brute.constants(proto)
    found: dict[str, set[str]] = {}
    for node in filter(brute.is_qdq, brute.all_nodes(proto)):
        source = made_by.get(node.input[0])
        behind = node.op_type == brute.DEQUANTIZE and source is not None and source.op_type == brute.QUANTIZE
        if node.input[1] in constants and brute.reaches_a_reader(proto, node):
            found.setdefault(node.input[1], set()).add(source.input[0] if behind else node.input[0])
    return found


def with_doubled(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    copy = brute.copied(proto)
    tensor = brute.stored(copy)[name]
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(numpy_helper.to_array(tensor) * 2), tensor.name))
    return copy
