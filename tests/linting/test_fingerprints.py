"""Findings are recognized in a model whose names or order changed, and different findings differ."""

import re

import onnx
import pytest
from support.renamed import renamed, reordered

from qdqtool import rules
from qdqtool.graph.model import Model
from qdqtool.jobs.validate import validate_model


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
