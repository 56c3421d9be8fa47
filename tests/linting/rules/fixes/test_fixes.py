"""Every fix of every rule on the rule's own examples: it removes the fault, says what it is, and is done once."""

import contextlib
from collections.abc import Iterator
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


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Say of which example an error is."""
    try:
        yield
    except BaseException as error:
        error.add_note(what)
        raise


WITH_FIXES = [pytest.param(rule, id=rule.code) for rule in rules.catalogue() if rule.offers]


def fixable(rule: Rule) -> Iterator[tuple[str, Model]]:
    """Title and model of each example with a fix."""
    for example in rule.INVALID:
        model = Model(example.model())
        if any(fault.fixes for _, fault in findings(model, rule)):
            yield example.title, model


@pytest.mark.parametrize("rule", WITH_FIXES)
def test_the_fixes_of_a_rule(rule: Rule, tmp_path: Path):
    for title, model in fixable(rule):
        with explained(f"{rule.code}: {title}"):
            removes_the_fault_and_is_stable(rule, model, tmp_path)
            safe_fix_is_proven_or_refused(rule, model)


def removes_the_fault_and_is_stable(rule: Rule, model: Model, folder: Path) -> None:
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
    save_model(fixed.model, folder / "fixed.onnx")
    onnx.checker.check_model(onnx.load(folder / "fixed.onnx"), full_check=True)


def safe_fix_is_proven_or_refused(rule: Rule, model: Model) -> None:
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
