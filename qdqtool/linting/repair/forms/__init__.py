"""Rewrite foreign forms of quantization as Q/DQ of ONNX: each module of the package is one form.

Each module has a function ``find(context)`` that yields the nodes with the form, each with the fix that rewrites it. A
form that a rule of the linter finds and fixes is an entry of :data:`OF_RULES` instead.
"""

from collections.abc import Iterator, Mapping

from qdqtool.linting import rules
from qdqtool.linting.repair import forms as _package
from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.rules import Offer, RuleContext
from qdqtool.linting.rules.fixes.code_operators import CLIPPED, SAME_TYPE
from qdqtool.linting.rules.fixes.reblock import FITTED
from qdqtool.models import targets
from qdqtool.registry import load_unit, unit_names

OF_RULES: Mapping[str, Mapping[str, Offer | None]] = {
    # Block scales on another axis than the node's ``axis``, as Model Optimizer's int4 RTN writes them.
    "block-axis": {"QA203": FITTED},
    # A Clip of codes between Q and DQ, the narrow range of Brevitas.
    "clipped-codes": {"QS007": CLIPPED},
    # Scales and zero points that are computed from constants.
    "computed-scale": {"QP111": None, "QP107": None},
    # Biases that are stored as codes.
    "float-bias": {"QL301": None},
    # Q/DQ of com.microsoft.
    "microsoft-domain": {"QS010": None},
    # A Cast of codes to their own type, as in FX exports of PyTorch.
    "same-type-cast": {"QS007": SAME_TYPE},
    # Unsigned and asymmetric codes, if signed codes with zero point 0 can have the same values.
    "signed-codes": {"QP102": None, "QP103": None},
    # A Clip, Transpose or Reshape of constant codes in front of their DQ.
    "stored-codes": {"QL312": None},
    # Q/DQ that only TensorRT's parser knows.
    "tensorrt-domain": {"QS015": None},
}
"""For each form, the rules that find it, and the offer that rewrites it; None for the first offer of the rule."""


def names() -> tuple[str, ...]:
    """Return the names of the forms, sorted, with dashes instead of underscores."""
    return tuple(sorted([*OF_RULES, *(name.replace("_", "-") for name in unit_names(_package))]))


def find_all(context: RuleContext) -> Iterator[Proposal]:
    """Yield every foreign form of a model."""
    for name in names():
        yield from find(context, name)


def find(context: RuleContext, name: str) -> Iterator[Proposal]:
    """Yield every place of a model with the named form."""
    if name not in OF_RULES:
        for node, fix in load_unit(_package, name.replace("-", "_")).find(context):
            yield Proposal(code=name, node=node, fixes=(fix,))
    for code, offer in OF_RULES.get(name, {}).items():
        yield from _of_rule(context, name, code, offer)


def _of_rule(context: RuleContext, name: str, code: str, offer: Offer | None) -> Iterator[Proposal]:
    """Yield the findings of a rule for TensorRT that one of its safe offers can fix."""
    rule = rules.get(code)
    wanted = offer or rule.offers[0]
    assert wanted.label == "safe"
    for _, fault in rule.locate(context, targets.get("tensorrt")):
        chosen = tuple(fix for fix in fault.fixes if fix.offer is wanted)
        if chosen:
            yield Proposal(code=name, node=fault.node, fixes=chosen)
