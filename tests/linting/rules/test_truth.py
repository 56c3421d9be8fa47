"""The rules against the real judges: the parser and builder of TensorRT for RTX, ONNX Runtime, onnx's checker.

A model has a finding with effect ``refused`` exactly when the judge refuses it. Asked of every example of every rule,
each model once, with all rules at work: an example may be refused for one reason only, and a VALID one for none.
"""

import onnx
import pytest
from support.ort_verdict import ort_refuses
from support.trt_verdict import TrtOracle

from qdqtool.linting import rules
from qdqtool.linting.rules import Example, RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

EXAMPLES = {
    (example.text, example.compute_capabilities): pytest.param(example, id=f"{rule.code}-{example.title}")
    for rule in rules.catalogue()
    for example in (*rule.VALID, *rule.INVALID)
}.values()

NEVER_CHECKED_BY_ONNX = {"QA203", "QA205", "QA206", "QA207", "QA208", "QS003", "QS014"}
"""Rules of the specification's text about shapes, which onnx's checker does not look at."""


def refusals(example: Example, target: str) -> set[str]:
    context = RuleContext(Model(example.model()))
    judge = targets.get(target).on(example.compute_capabilities)
    return {
        finding.code
        for rule in rules.catalogue()
        for finding in rule.run(context, judge)
        if finding.effect == "refused"
    }


LONG = {"fp4 times fp4": "the builder works for 10 s", "a function that calls itself": "a stack is filled for 8 s"}
BUILT = [
    pytest.param(*each.values, id=each.id, marks=pytest.mark.slow(reason=LONG[each.values[0].title]))
    if each.values[0].title in LONG
    else each
    for each in EXAMPLES
]


@pytest.mark.builder
@pytest.mark.parametrize("example", BUILT)
def test_tensorrt_for_rtx_refuses_what_we_say_it_refuses(example: Example, oracle: TrtOracle):
    verdict = oracle.judge(example.model(), example.compute_capabilities)

    assert verdict.accepted == (not refusals(example, "tensorrt-rtx")), verdict.message


FROM_LIBRARIES = {"another name than the declared one": "acme:Swrl(-1) is not a registered function/op"}
"""Examples with an operator that ONNX Runtime has once a library is named, and what it says without."""


@pytest.mark.parametrize("example", EXAMPLES)
def test_onnx_runtime_refuses_what_we_say_it_refuses(example: Example):
    said, reason = refusals(example, "ort-cpu"), ort_refuses(example.model())
    if reason is not None and FROM_LIBRARIES.get(example.title, "?") in reason:
        reason = None

    assert (reason is not None) == bool(said), reason


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_checker_refuses_what_we_say_breaks_the_specification(example: Example):
    said = refusals(example, "onnx")
    try:
        onnx.checker.check_model(example.model(), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        assert said
    else:
        assert said <= NEVER_CHECKED_BY_ONNX
