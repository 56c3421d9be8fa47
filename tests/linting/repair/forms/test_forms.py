"""Forms that rules find: they propose the first offer of the rule, and no other."""

import onnx.parser
import pytest

from qdqtool.linting import rules
from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.repair.forms import OF_RULES, find, find_all, names
from qdqtool.linting.rules import RuleContext
from qdqtool.models.graph.model import Model

FORMS = {
    "block-axis": ["QA203"],
    "clipped-codes": ["QS007"],
    "computed-scale": ["QP111", "QP107"],
    "float-bias": ["QL301"],
    "microsoft-domain": ["QS010"],
    "same-type-cast": ["QS007"],
    "stored-codes": ["QL312"],
    "signed-codes": ["QP102", "QP103"],
    "tensorrt-domain": ["QS015"],
}


def test_forms_of_rules_are_among_the_forms():
    assert {form: list(codes) for form, codes in OF_RULES.items()} == FORMS
    assert FORMS.keys() < set(names())
    assert list(names()) == sorted(set(names()))


@pytest.mark.parametrize("form", FORMS)
def test_what_the_rules_show_as_faulty_is_proposed_with_their_safe_fix(form: str):
    for rule in map(rules.get, FORMS[form]):
        found: list[Proposal] = []
        for example in rule.INVALID:
            found += find(RuleContext(Model(example.model())), form)
        assert found
        for proposal in found:
            assert proposal.code == form
            assert proposal.node is not None
            assert proposal.fixes
            assert {fix.offer.label for fix in proposal.fixes} == {"safe"}
        for example in rule.VALID:
            assert not [each for each in find(RuleContext(Model(example.model())), form) if each.code != form]


WEIGHT = """<ir_version: 10, opset_import: ["": 21]>
g (float[1,2] x) => (float[1,2] y) <uint8[2,2] w = {3, 255, 9, 12}, float s = {0.1}, uint8 z = {7}> {
    d = DequantizeLinear (w, s, z) y = MatMul (x, d) }"""


def test_codes_that_would_have_to_be_quantized_again_have_exact_fixes_only():
    """The rule itself also offers to quantize again."""
    context = RuleContext(Model(onnx.parser.parse_model(WEIGHT)))

    found = [fix.description for proposal in find_all(context) for fix in proposal.fixes]
    assert set(found) == {"stores the uint8 codes as int8 with zero point 0, exactly"}


def test_a_fault_without_a_fix_is_not_proposed():
    text = WEIGHT.replace("uint8[2,2] w", "int16[2,2] w").replace("uint8 z", "int16 z")
    assert not list(find_all(RuleContext(Model(onnx.parser.parse_model(text)))))
