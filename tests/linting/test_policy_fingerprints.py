"""Findings are recognized in a model whose names or order changed, and different findings differ."""

import re
from collections.abc import Iterator

import onnx
import pytest
from support.renamed import renamed, reordered

from qdqtool.jobs.validate import validate_model
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

WITHOUT_DEGREES = {
    "QA201": "an axis is right or wrong",
    "QA202": "an activation has one scale or several",
    "QA206": "one block of a whole axis is right or wrong",
    "QL301": "a type",
    "QL307": "inputs of an attention: quantizing one more or one less are both steps away from all or none",
    "QL308": "a layer below a threshold is small",
    "QL310": "a granularity",
    "QL313": "a type",
    "QL315": "a type and a granularity",
    "QL316": "a type",
    "QL317": "a shape",
    "QL319": "a type",
    "QM614": "an opset that ONNX does not have",
    "QM901": "a code",
    "QP103": "a type",
    "QP110": "an attribute that is there or not",
    "QP112": "a type",
    "QS003": "a type",
    "QS004": "an opset",
    "QS015": "an operator",
}
"""Rules whose values have digits in them and do not get worse by degrees: another value is another finding."""


def every_finding() -> Iterator[Finding]:
    for rule in rules.catalogue():
        for example in rule.INVALID:
            context = RuleContext(Model(example.model()))
            for name in targets.names():
                yield from rule.run(context, targets.get(name))


def test_a_value_that_can_get_worse_has_an_extent():
    plain = [each for each in every_finding() if each.extent is None and each.effect != "refused"]
    numeric = {each.code for each in plain if re.search(r"\d", each.found or "")}

    assert numeric <= WITHOUT_DEGREES.keys(), "give the Fault an extent, or say here why it has no degrees"


@pytest.mark.parametrize("code", ["QP101", "QL302", "QS002", "QP106"])
@pytest.mark.parametrize(
    "change", [reordered, lambda proto: renamed(proto, "val_"), lambda proto: renamed(proto, "onnx::X_")]
)
def test_fingerprints_survive_new_order_and_new_names(code: str, change):
    proto = rules.get(code).INVALID[0].model()
    first, second = (validate_model(Model(each), select=[code]).findings for each in (proto, change(proto)))

    assert first
    assert sorted(finding.structure for finding in first) == sorted(finding.structure for finding in second)
    if change is reordered:
        assert sorted(finding.fingerprint for finding in first) == sorted(finding.fingerprint for finding in second)


def test_names_that_are_only_renumbered_keep_the_fingerprint():
    proto = renamed(rules.get("QP101").INVALID[0].model(), "val_")
    shifted = onnx.ModelProto.FromString(
        re.sub(rb"val_(\d)", lambda match: b"val_%d" % ((int(match[1]) + 4) % 10), proto.SerializeToString())
    )
    first, second = (validate_model(Model(each), select=["QP101"]).findings for each in (proto, shifted))

    assert first[0].tensor != second[0].tensor
    assert first[0].fingerprint == second[0].fingerprint


def test_another_value_is_another_finding():
    one, other = rules.get("QP101").INVALID[:2]
    first, second = (validate_model(Model(each.model()), select=["QP101"]).findings for each in (one, other))

    assert first[0].fingerprint != second[0].fingerprint
