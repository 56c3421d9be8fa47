"""The finding: what a rule must state, and what has a default."""

import dataclasses
import typing

import pytest

from qdqtool.linting.findings import SEVERITIES, Finding, Severity

ONE = {"code": "QP101", "name": "parameters.scale-value", "severity": "error", "effect": "refused", "message": "scale"}


def test_severities_are_listed_from_the_worst():
    assert SEVERITIES == typing.get_args(Severity) == ("error", "warning", "info")


@pytest.mark.parametrize("missing", ONE)
def test_code_name_severity_effect_and_message_must_be_given(missing):
    with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{missing}'"):
        Finding(**{key: value for key, value in ONE.items() if key != missing})


def test_a_finding_about_the_model_names_no_node_and_cannot_be_fixed():
    finding = Finding(**ONE)
    assert (finding.node, finding.tensor, finding.graph, finding.fixable) == (None, None, "", False)


def test_equal_findings_count_once_and_none_can_be_changed():
    assert len({Finding(**ONE), Finding(**ONE), Finding(**{**ONE, "message": "other"})}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        Finding(**ONE).message = "other"
