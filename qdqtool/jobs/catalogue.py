"""The rule catalog as data, for ``rules``, ``explain`` and the generated pages."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from qdqtool.jobs.rule_examples import ExampleCard, card, judged_card
from qdqtool.linting import rules
from qdqtool.linting.findings import Effect, Severity
from qdqtool.linting.rules import Label, Rule
from qdqtool.models import targets

HEADINGS = ("Why it matters", "Bad", "Good")


@dataclass(frozen=True, slots=True)
class TargetImpact:
    """The effect of a fault on one target.

    Attributes:
        target: Id of the target.
        severity: How severe a fault is for the target.
        effect: What the target does with a faulty model.
    """

    target: str
    severity: Severity
    effect: Effect


@dataclass(frozen=True, slots=True)
class FixCard:
    """A kind of fix that ``--fix`` can make: a ``safe`` fix is proven, an ``unsafe`` fix needs ``--unsafe-fixes``.

    Attributes:
        label: ``safe`` or ``unsafe``.
        summary: What the fix does.
    """

    label: Label
    summary: str


@dataclass(frozen=True, slots=True)
class RuleCard:
    """All facts about one rule.

    Attributes:
        code: Stable code.
        name: Dotted name.
        summary: The rule in one sentence.
        why: Why the rule matters.
        bad: A wrong use, in words.
        good: A right use, in words.
        remedy: How to fix a finding.
        fixes: The kinds of fix that ``--fix`` can make, the best one first.
        since: The first version of qdqtool with the rule.
        impacts: The usual effect of a fault on each target that the rule affects.
        invalid: Example models that the rule reports.
        valid: Example models that pass the rule.
    """

    code: str
    name: str
    summary: str
    why: str
    bad: str
    good: str
    remedy: str
    fixes: tuple[FixCard, ...]
    since: str
    impacts: tuple[TargetImpact, ...]
    invalid: tuple[ExampleCard, ...]
    valid: tuple[ExampleCard, ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every rule, sorted by code.

    Attributes:
        rules: The rules.
    """

    rules: tuple[RuleCard, ...]


def catalogue() -> Catalogue:
    """Return the cards of all rules; the examples come without findings and fixes."""
    return Catalogue(tuple(_card(rule, tuple(map(card, rule.INVALID))) for rule in rules.catalogue()))


def judged_catalogue() -> Catalogue:
    """Return the cards of all rules, with findings and fixes of their examples; this runs every rule and every fix."""
    return Catalogue(tuple(map(_judged, rules.catalogue())))


def explain(code_or_name: str) -> RuleCard:
    """Return the card of one rule, with the findings and fixes of its examples."""
    return _judged(rules.get(code_or_name))


def _judged(rule: Rule) -> RuleCard:
    return _card(rule, tuple(judged_card(rule, example) for example in rule.INVALID))


def _card(rule: Rule, invalid: tuple[ExampleCard, ...]) -> RuleCard:
    summary, *paragraphs = inspect.cleandoc(rule.__doc__ or "").split("\n\n")
    parts = dict(_parts(paragraphs))
    return RuleCard(
        code=rule.code,
        name=rule.name,
        summary=summary,
        why=parts.get("Why it matters", ""),
        bad=parts.get("Bad", ""),
        good=parts.get("Good", ""),
        remedy=rule.remedy,
        fixes=tuple(FixCard(offer.label, offer.summary) for offer in rule.offers),
        since=rule.since,
        impacts=tuple(_impacts(rule)),
        invalid=invalid,
        valid=tuple(map(card, rule.VALID)),
    )


def _parts(paragraphs: list[str]) -> Iterator[tuple[str, str]]:
    for paragraph in paragraphs:
        heading, _, text = " ".join(paragraph.split()).partition(": ")
        if heading in HEADINGS:
            yield heading, text


def _impacts(rule: Rule) -> Iterator[TargetImpact]:
    for name in targets.names():
        impact = rule.impact(targets.get(name))
        if impact is not None:
            yield TargetImpact(name, impact.severity, impact.effect)
