"""Laws that every rule keeps, asked of every rule unasked."""

import inspect
import re
from pathlib import Path

import pytest

from qdqtool.errors import ArgumentError
from qdqtool.jobs.catalogue import explain
from qdqtool.linting import rules
from qdqtool.linting.findings import SEVERITIES
from qdqtool.linting.rules import Example, Rule, RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

CODE = re.compile(r"Q[SPALTNME]\d{3}")
NO_TEXT_EXAMPLE = {"QM603", "QM609", "QE701"}
"""Rules about what ONNX text cannot write, or about what TensorRT said; they have a test file of their own."""

EXAMPLES = [
    pytest.param(rule, example, reported, target, id=f"{rule.code}-{example.title}-{target}")
    for rule in rules.catalogue()
    for examples, reported in ((rule.VALID, False), (rule.INVALID, True))
    for example in examples
    for target in (example.targets or targets.names())
    if rule.impact(targets.get(target)) is not None
]


@pytest.mark.parametrize(("rule", "example", "reported", "target"), EXAMPLES)
def test_example_is_reported_or_passed(rule: Rule, example: Example, reported: bool, target: str):
    judge = targets.get(target).on(example.compute_capabilities)
    findings = list(rule.run(RuleContext(Model(example.model())), judge))

    assert bool(findings) == reported
    for finding in findings:
        assert finding.code == rule.code
        assert finding.severity in SEVERITIES
        assert "\n" not in finding.message


@pytest.mark.parametrize("rule", rules.catalogue(), ids=lambda rule: rule.code)
def test_rule_is_documented_and_proven(rule: Rule):
    card = explain(rule.code)

    assert CODE.fullmatch(rule.code)
    assert re.fullmatch(r"[a-z]+\.[a-z0-9-]+", rule.name)
    assert card.summary.endswith(".")
    assert card.why
    assert card.bad
    assert card.good
    assert not rule.remedy.endswith(".")
    assert rule.VALID
    assert rule.INVALID or rule.code in NO_TEXT_EXAMPLE
    assert card.impacts, "a rule that affects no target is never run"
    assert [bad.text for bad in card.invalid] == [inspect.cleandoc(example.text) for example in rule.INVALID]


def test_codes_and_names_are_unique():
    catalogue = rules.catalogue()

    assert len({rule.code for rule in catalogue}) == len(catalogue)
    assert len({rule.name for rule in catalogue}) == len(catalogue)


def test_every_affected_target_exists():
    known = {targets.get(name).id for name in targets.names()} | {targets.get(name).family for name in targets.names()}

    assert {target for rule in rules.catalogue() for target in rule.affects} <= known


def test_examples_of_a_rule_have_different_titles():
    for rule in rules.catalogue():
        titles = [example.title for example in (*rule.VALID, *rule.INVALID)]
        assert len(set(titles)) == len(titles), rule.code


def test_examples_keep_the_model_as_it_is():
    for rule in rules.catalogue():
        for example in (*rule.VALID, *rule.INVALID):
            model = example.model()
            before = model.SerializeToString(deterministic=True)
            context = RuleContext(Model(model))
            for target in targets.names():
                for every in rules.catalogue():
                    list(every.run(context, targets.get(target)))
            assert model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("spelling", ["QP101", "qp101", "parameters.scale-value"])
def test_a_rule_is_found_by_code_and_name(spelling: str):
    assert rules.get(spelling).code == "QP101"


def test_an_unknown_rule_is_refused_with_a_suggestion():
    with pytest.raises(ArgumentError, match="did you mean 'QP"):
        rules.get("QP1O1")


def test_select_and_ignore_take_prefixes():
    parameters = rules.choose(["QP"], None)
    without = rules.choose(None, ["QP"])

    assert {rule.code[:2] for rule in parameters} == {"QP"}
    assert set(parameters) | set(without) == set(rules.catalogue())
    assert not set(parameters) & set(without)
    assert rules.choose(["ALL"], ["parameters."]) == without


@pytest.mark.parametrize(
    ("select", "ignore", "chosen"),
    [
        (["QP101"], None, {"QP101"}),
        (["QP101"], ["QP"], {"QP101"}),
        (["QP101", "QP"], ["QP10"], {"QP101"}),
        (["QP", "QP101"], ["QP10"], {"QP101"}),
        (["QP101"], ["QP101"], set()),
        (["QP10"], ["QP10", "QP101"], set()),
        (None, ["ALL"], set()),
        ([], None, set()),
    ],
)
def test_the_prefix_that_matches_fewer_rules_decides(
    select: list[str] | None, ignore: list[str] | None, chosen: set[str]
):
    found = {rule.code for rule in rules.choose(select, ignore)}

    assert {code for code in found if code.startswith("QP10")} == chosen


def test_every_module_of_the_package_holds_the_rule_that_it_begins_with():
    texts = [path.read_text() for path in Path(rules.__file__).parent.glob("*.py") if path.name != "__init__.py"]
    codes = [match.group(1) for text in texts if (match := re.match(r'"""(Q\w\d{3}): ', text))]

    # Read anew: the catalogue of this process was made before.
    found = rules.catalogue.__wrapped__()
    assert [rule.code for rule in found] == sorted(codes)
    assert len(codes) == len(texts)


@pytest.mark.parametrize("prefix", ["QX", "", "QP1010"])
def test_a_prefix_that_fits_nothing_is_refused(prefix: str):
    with pytest.raises(ArgumentError, match="neither ALL nor the beginning of a rule code"):
        rules.choose([prefix], None)
