"""QM901: suppressions that suppress nothing."""

from collections.abc import Iterator

from qdqtool.errors import ArgumentError
from qdqtool.linting.rules.support.rule import CAUTION, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.index.suppressions import Suppression, read_suppressions
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target


class UnusedSuppression(Rule):
    """A suppression that is stored in the model suppresses a finding.

    Why it matters: a note that no longer fits a finding, or names no rule, hides the next fault of its kind.

    Bad: qdqtool.ignore = "QP101: known" on a node whose scales are all positive.

    Good: notes only on nodes for which the rule reports a finding, for at least one target.
    """

    code = "QM901"
    name = "model.unused-suppression"
    affects = impacts(onnx=CAUTION, ort_cpu=CAUTION, tensorrt=CAUTION)
    remedy = "remove the code from the metadata_props entry qdqtool.ignore"
    VALID = examples(
        """
        the note fits a finding:
            <ir_version: 10, opset_import: ["": 21], metadata_props: ["qdqtool.ignore": "$NOTE"]>
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear (w, ws, wz)
                y = MatMul (x, wd)
            }
        """,
        NOTE="QS002: the default axis is meant",
    )
    INVALID = examples("""
        a note that fits nothing:
            <ir_version: 10, opset_import: ["": 21], metadata_props: ["qdqtool.ignore": "QP101: known"]>
            $ONE_PAIR
        a note for a rule that does not exist:
            <ir_version: 10, opset_import: ["": 21], metadata_props: ["qdqtool.ignore": "QX999: known"]>
            $ONE_PAIR
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Apply each rule that a note names, for every target, and check whether it reports a fault there."""
        places: dict[str, list[NodeView | None]] = {}
        for suppression in read_suppressions(context.view):
            for prefix in suppression.prefixes:
                if _asks_parser(prefix):
                    continue
                if prefix not in places:
                    places[prefix] = list(self._places(context, prefix))
                if not any(map(suppression.covers, places[prefix])):
                    yield _fault(suppression, prefix)

    def _places(self, context: RuleContext, prefix: str) -> Iterator[NodeView | None]:
        # Imported here because the package imports this module.
        from qdqtool.linting import rules

        try:
            named = rules.matching(prefix)
        except ArgumentError:
            return
        for rule in named:
            if rule.code != self.code:
                for name in targets.names():
                    yield from (fault.node for _, fault in rule.locate(context, targets.get(name)))


def _asks_parser(prefix: str) -> bool:
    """Return whether findings of the prefix may come from TensorRT's parser, which does not run here."""
    from qdqtool.linting import rules

    try:
        return any(rule.asks_parser for rule in rules.matching(prefix) if prefix.upper() != "ALL")
    except ArgumentError:
        return False


def _fault(suppression: Suppression, prefix: str) -> Fault:
    message = f"{suppression.place} suppresses '{prefix}', but there is no such finding"
    return Fault(message, suppression.node, found=prefix, expected="no such note")
