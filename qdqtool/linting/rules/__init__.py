"""The rules of the linter: one rule in each module. The package is walked: there is no list to edit.

Each module has one subclass of :class:`qdqtool.linting.rules.support.rule.Rule`.
"""

import functools
import inspect
from collections.abc import Iterable

from qdqtool.errors import ArgumentError
from qdqtool.linting import rules as _package
from qdqtool.linting.rules.support.fix import Draft as Draft
from qdqtool.linting.rules.support.fix import Fix as Fix
from qdqtool.linting.rules.support.fix import Label as Label
from qdqtool.linting.rules.support.fix import Offer as Offer
from qdqtool.linting.rules.support.fix import UnfitError as UnfitError
from qdqtool.linting.rules.support.rule import EXAMPLE_HEADER as EXAMPLE_HEADER
from qdqtool.linting.rules.support.rule import Example as Example
from qdqtool.linting.rules.support.rule import Fault as Fault
from qdqtool.linting.rules.support.rule import Rule as Rule
from qdqtool.linting.rules.support.rule_context import RuleContext as RuleContext
from qdqtool.linting.rules.support.rule_context import as_reals as as_reals
from qdqtool.registry import load_unit, suggestion, unit_names


@functools.cache
def catalogue() -> tuple[Rule, ...]:
    """Return every rule, sorted by code."""
    found = (_rule_of(name) for name in unit_names(_package))
    return tuple(sorted(found, key=lambda rule: rule.code))


def get(code_or_name: str) -> Rule:
    """Return the rule with a code (``QP101``, in upper or lower case) or a dotted name.

    Raises:
        ArgumentError: No rule has this code or name.
    """
    for rule in catalogue():
        if code_or_name.upper() == rule.code or code_or_name.lower() == rule.name:
            return rule
    raise _unknown(code_or_name, f"rule '{code_or_name}' is unknown")


def _unknown(word: str, message: str) -> ArgumentError:
    """Return the error for a word that names no rule; it suggests a similar word."""
    legal = [each for rule in catalogue() for each in (rule.code, rule.name)]
    hint = "`qdqtool rules` lists all rules; `qdqtool explain` lists the pages of the manual"
    return ArgumentError(f"{message}{suggestion(word, legal)}", hint=hint)


def choose(
    select: Iterable[str] | None, ignore: Iterable[str] | None, extend_select: Iterable[str] = ()
) -> tuple[Rule, ...]:
    """Return the selected rules. Prefixes of codes or names select and ignore rules.

    ``ALL`` stands for every rule; a dotted name, or the part before its dot, is a prefix too. If a rule is both
    selected and ignored, the prefix that matches fewer rules decides. If both prefixes match equally many rules, the
    rule is ignored.

    Args:
        select: Prefixes of the rules to select; None for every rule.
        ignore: Prefixes of the rules to ignore.
        extend_select: Prefixes to select in addition to ``select``.
    """
    selected = _widths([*(["ALL"] if select is None else select), *extend_select])
    ignored = _widths(ignore or ())
    return tuple(
        rule for rule in catalogue() if rule in selected and (rule not in ignored or selected[rule] < ignored[rule])
    )


@functools.cache
def matching(prefix: str) -> tuple[Rule, ...]:
    """Return the rules that a prefix matches.

    Raises:
        ArgumentError: The prefix matches no rule.
    """
    found = tuple(rule for rule in catalogue() if _matches(rule, prefix))
    if not found:
        raise _unknown(prefix, f"'{prefix}' is neither ALL nor the beginning of a rule code")
    return found


def _widths(prefixes: Iterable[str]) -> dict[Rule, int]:
    """Return each matched rule; its value is how many rules the narrowest prefix for it matches."""
    widths: dict[Rule, int] = {}
    for found in map(matching, prefixes):
        for rule in found:
            widths[rule] = min(len(found), widths.get(rule, len(found)))
    return widths


def _matches(rule: Rule, prefix: str) -> bool:
    if not prefix:
        return False
    return prefix.upper() == "ALL" or rule.code.startswith(prefix.upper()) or rule.name.startswith(prefix.lower())


def _rule_of(name: str) -> Rule:
    module = load_unit(_package, name)
    found = [
        member
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, Rule) and member.__module__ == module.__name__
    ]
    assert len(found) == 1, f"{module.__name__} must hold exactly one rule"
    rule = found[0]()
    assert isinstance(rule, Rule)
    return rule
