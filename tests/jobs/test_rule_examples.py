"""What the pages and `explain` show of each example: the findings, and the fixed model."""

import inspect

import onnx
import pytest

from qdqtool.errors import CapabilityError
from qdqtool.jobs import rule_examples
from qdqtool.jobs.rule_examples import judged_card
from qdqtool.linting import rules
from qdqtool.linting.rules import EXAMPLE_HEADER, Example, Rule, RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.code}-{example.title}")
    for rule in rules.catalogue()
    for example in rule.INVALID
]


def findings(rule: Rule, example: Example, model: onnx.ModelProto) -> list[tuple[str, str, bool]]:
    found = []
    for name in example.targets or targets.names():
        judge = targets.get(name).on(example.compute_capabilities)
        found += [(name, each.message, each.fixable) for each in rule.run(RuleContext(Model(model)), judge)]
    return found


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_an_example_shows_each_message_that_it_gives(rule: Rule, example: Example):
    card = judged_card(rule, example)
    shown = {(target, each.message) for each in card.findings for target in each.targets}

    assert card.text == inspect.cleandoc(example.text)
    assert card.findings
    for target, message, _ in findings(rule, example, example.model()):
        assert any(target == where and message in line for where, line in shown)


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_a_fixed_example_is_a_model_without_that_fault(rule: Rule, example: Example):
    fixed = judged_card(rule, example).fixed
    fixable = any(fixable for _, _, fixable in findings(rule, example, example.model()))

    assert (fixed is not None) == fixable
    if fixed is not None:
        model = onnx.parser.parse_model(fixed.text if fixed.text.startswith("<") else EXAMPLE_HEADER + fixed.text)
        assert not any(fixable for _, _, fixable in findings(rule, example, model))
        assert fixed.edits
        # A safe fix is unsafe where ONNX Runtime does not run the example, and so proves nothing.
        assert fixed.label == "unsafe" or "safe" in {offer.label for offer in rule.offers}


def test_without_onnx_runtime_there_is_no_fixed_model(monkeypatch: pytest.MonkeyPatch):
    def absent(*_: object) -> None:
        raise CapabilityError("ONNX Runtime is not installed")

    monkeypatch.setattr(rule_examples, "fix_model", absent)
    rule = rules.get("QS001")

    assert judged_card(rule, rule.INVALID[0]).fixed is None
    assert judged_card(rule, rule.INVALID[0]).findings
