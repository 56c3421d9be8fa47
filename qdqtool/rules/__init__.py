"""The rules of the linter, one a module. The package is walked: there is no list to edit.

A module holds one subclass of :class:`qdqtool.rules._rule.Rule`.
"""

import functools
import inspect
from collections.abc import Iterable

from qdqtool import rules as _package
from qdqtool.errors import ArgumentError
from qdqtool.registry import load_unit, suggestion, unit_names
from qdqtool.rules._facts import Facts as Facts
from qdqtool.rules._rule import Example as Example
from qdqtool.rules._rule import Rule as Rule


@functools.cache
def catalogue() -> tuple[Rule, ...]:
    """Every rule, sorted by code."""
    found = (_rule_of(name) for name in unit_names(_package))
    return tuple(sorted(found, key=lambda rule: rule.code))


def get(code_or_name: str) -> Rule:
    """The rule of that code (``QP101``, in any case) or dotted name.

    Raises:
        ArgumentError: There is none.
    """
    for rule in catalogue():
        if code_or_name.upper() == rule.code or code_or_name.lower() == rule.name:
            return rule
    legal = [word for rule in catalogue() for word in (rule.code, rule.name)]
    raise ArgumentError(
        f"rule '{code_or_name}' is unknown{suggestion(code_or_name, legal)}", hint="qdqtool rules lists them all"
    )


def choose(select: Iterable[str] | None, ignore: Iterable[str] | None) -> tuple[Rule, ...]:
    """The rules whose code begins with one of ``select`` (default every rule) and with none of ``ignore``.

    ``ALL`` stands for every rule; a dotted name, or the part before its dot, is a prefix too.

    Raises:
        ArgumentError: A prefix fits no rule.
    """
    selected = catalogue() if select is None else _matching(select)
    ignored = _matching(ignore or ())
    return tuple(rule for rule in selected if rule not in ignored)


def _matching(prefixes: Iterable[str]) -> tuple[Rule, ...]:
    wanted = list(prefixes)
    for prefix in wanted:
        if not any(_matches(rule, prefix) for rule in catalogue()):
            legal = [word for rule in catalogue() for word in (rule.code, rule.name)]
            raise ArgumentError(
                f"'{prefix}' is neither ALL nor the beginning of a rule code{suggestion(prefix, legal)}",
                hint="qdqtool rules lists them all",
            )
    return tuple(rule for rule in catalogue() if any(_matches(rule, prefix) for prefix in wanted))


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
