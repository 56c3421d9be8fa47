"""Fixes on random models: no new finding, and the same outputs, to the bit where a fix is called safe."""

from collections import Counter

import onnx
from hypothesis import given
from hypothesis import strategies as st
from support.ort_verdict import ort_outputs
from support.random_models import drawn_feeds, quantized_models, tried_on, whole
from support.random_models.equal import assert_same_bits

from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.jobs.validate import validate_model
from qdqtool.linting.policy import Policy
from qdqtool.models.graph.model import Model

TARGETS = ("onnx", "ort-cpu", "tensorrt", "tensorrt-rtx")


@tried_on(12)
@given(quantized_models(), st.sampled_from(TARGETS))
def test_safe_fixes_keep_every_bit_and_add_no_finding(model, target):
    fixed = fix_model(model, FixRequest(policy=Policy(targets=(target,)), diff=True))
    assert {change.label for change in fixed.report.changes} <= {"safe"}
    proto = whole(fixed.model)
    onnx.checker.check_model(proto, full_check=True)
    if not fixed.report.changes:
        assert proto == model.proto
    assert_same_bits(proto, model.proto, drawn_feeds(model))
    assert_no_new_finding(model, Model(proto), target)


@tried_on(12)
@given(quantized_models(), st.sampled_from(TARGETS))
def test_unsafe_fixes_keep_the_interface(model, target):
    """They may uncover a finding that a worse one hid: two operands of different types, once both are legal."""
    fixed = fix_model(model, FixRequest(policy=Policy(targets=(target,)), diff=True, unsafe=True))
    proto = whole(fixed.model)
    onnx.checker.check_model(proto, full_check=True)
    assert list(proto.graph.input) == list(model.proto.graph.input)
    assert list(proto.graph.output) == list(model.proto.graph.output)
    assert ort_outputs(proto, drawn_feeds(model))


def assert_no_new_finding(before: Model, after: Model, target: str) -> None:
    """Assert that findings only went, or made way for another at the same node.

    A Q that does not say its type (QS001) is told that it is uint8, which is what QP103 is about. Types that are not
    legal hide that a product has operands of several (QL311, QT405). A Relu hides that a Q rounds what another pair has
    rounded (QL309), until that pair goes behind the Relu.
    """
    old, new = (
        Counter(
            finding.node
            for finding in validate_model(each, [target]).findings
            if finding.code not in {"QL309", "QL311", "QT405"}
        )
        for each in (before, after)
    )
    assert new - old == Counter()
