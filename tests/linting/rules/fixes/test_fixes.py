"""Every fix of every rule on the rule's own examples: it removes the fault, says what it is, and is done once."""

from pathlib import Path

import onnx
import pytest
from support.ort_verdict import ort_refuses

from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting import rules
from qdqtool.linting.policy import Policy
from qdqtool.linting.rules import Rule, RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model


def findings(model: Model, rule: Rule) -> list[tuple[str, object]]:
    judges = [targets.get(name) for name in targets.names()]
    return [(judge.id, fault) for judge in judges for _, fault in rule.locate(RuleContext(model), judge)]


def example_models() -> list[object]:
    found = []
    for rule in rules.catalogue():
        for example in rule.INVALID:
            model = Model(example.model())
            if any(fault.fixes for _, fault in findings(model, rule)):
                found.append(pytest.param(rule, model, id=f"{rule.code}-{example.title}"))
    return found


EXAMPLES = example_models()


@pytest.mark.parametrize(("rule", "model"), EXAMPLES)
def test_a_fix_removes_the_fault_and_is_stable(rule: Rule, model: Model):
    policy = Policy(targets=tuple(targets.names()), select=(rule.code,))
    before = model.proto.SerializeToString(deterministic=True)

    fixed = fix_model(model, FixRequest(policy=policy, unsafe=True))
    again = fix_model(fixed.model, FixRequest(policy=policy, unsafe=True))

    assert fixed.report.changes
    assert not fixed.report.refused
    assert not [fault for _, fault in findings(fixed.model, rule) if fault.fixes]
    assert not again.report.changes
    assert again.model.proto == fixed.model.proto
    assert model.proto.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(("rule", "model"), EXAMPLES)
def test_a_safe_fix_is_proven_or_refused(rule: Rule, model: Model):
    policy = Policy(targets=tuple(targets.names()), select=(rule.code,))

    done = fix_model(model, FixRequest(policy=policy)).report
    unprovable = {"safe"} if ort_refuses(model.proto) else set()

    assert all(change.label == "safe" and "bit-equal" in change.proof for change in done.changes)
    assert all(output.exact for output in done.outputs)
    assert {refused.label for refused in done.refused} <= {"unsafe", *unprovable}
    assert done.changes or done.refused


def test_every_fix_is_one_of_the_offers_of_its_rule():
    for rule in rules.catalogue():
        made = {
            fix.offer
            for example in rule.INVALID
            for _, fault in findings(Model(example.model()), rule)
            for fix in fault.fixes
        }
        assert made <= set(rule.offers), rule.code
        assert bool(made) == bool(rule.offers) or not rule.INVALID, rule.code  # too large to be written as text


@pytest.mark.parametrize(("rule", "model"), EXAMPLES)
def test_a_fixed_model_passes_the_checker(rule: Rule, model: Model, tmp_path: Path):
    policy = Policy(targets=tuple(targets.names()), select=(rule.code,))
    fixed = fix_model(model, FixRequest(policy=policy, unsafe=True))

    assert fixed.report.changes
    save_model(fixed.model, tmp_path / "fixed.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "fixed.onnx"), full_check=True)
