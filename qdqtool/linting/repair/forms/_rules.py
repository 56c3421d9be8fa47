"""Forms that are found and fixed by a rule of the linter."""

from collections.abc import Iterator

from qdqtool.linting import rules
from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.rules import Offer, RuleContext
from qdqtool.models import targets


def fixes_of(context: RuleContext, form: str, code: str, offer: Offer | None = None) -> Iterator[Proposal]:
    """Yield what a rule finds for TensorRT and can fix by one of its offers, which is a safe one.

    Args:
        context: The model.
        form: Name of the form.
        code: Code of the rule.
        offer: The offer; the rule's first one by default.
    """
    rule = rules.get(code)
    wanted = offer or rule.offers[0]
    assert wanted.label == "safe"
    for _, fault in rule.locate(context, targets.get("tensorrt")):
        chosen = tuple(fix for fix in fault.fixes if fix.offer is wanted)
        if chosen:
            yield Proposal(code=form, node=fault.node, fixes=chosen)
