"""What every rule reports, and what each of its fixes would edit, word for word: ``tests/golden/findings``.

There is a file for the INVALID examples of each rule, and one for a sample of each group of the corpus with all rules
at work. After a change that is meant, write the files again and read what git shows:

    QDQTOOL_WRITE_GOLDEN=1 pytest tests/rules/test_reports.py
"""

import functools
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from support import corpus
from support.corpus import Case
from support.findings_text import described, reports
from support.paths import ROOT

from qdqtool import rules
from qdqtool.graph.model import Model
from qdqtool.rules import Rule, RuleContext

GOLDEN = ROOT / "tests" / "golden" / "findings"
WRITE = "QDQTOOL_WRITE_GOLDEN"
RULES = [rule for rule in rules.catalogue() if rule.INVALID]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_what_a_rule_reports_of_its_examples(rule: Rule):
    lines: list[str] = []
    for example in rule.INVALID:
        lines += [f"# {example.title}", *described(example.model(), [rule], example.compute_capabilities)]
    compare(GOLDEN / f"{rule.code}.txt", lines)


@pytest.mark.parametrize(
    ("group", "case"),
    [pytest.param(group, case, id=f"{group}: {case.name}") for group in corpus.GROUPS for case in corpus.sample(group)],
)
def test_what_all_rules_report_of_a_model_of_the_corpus(group: str, case: Case):
    file = GOLDEN / f"corpus_{group.replace(' ', '_')}.txt"
    if os.environ.get(WRITE):
        write_group(group, file)
    assert reported(case) == sections(file)[case.name]


@pytest.mark.parametrize("rule", rules.catalogue(), ids=lambda rule: rule.code)
def test_what_a_rule_reports_of_the_whole_corpus(rule: Rule):
    """The same, with models that are read once for all rules, so that a fault in one is noticed at once."""
    assert list(reports_of(rule)) == in_files()[rule.code]


def reports_of(rule: Rule) -> Iterator[tuple[str, list[str]]]:
    for case, context in read_corpus():
        if lines := list(reports(context, [rule], case.compute_capabilities)):
            yield case.name, lines


@functools.cache
def read_corpus() -> list[tuple[Case, RuleContext]]:
    return [(case, RuleContext(Model(case.model))) for group in corpus.GROUPS for case in corpus.sample(group)]


def warm_up() -> None:
    """Read the corpus before mutants are tried (``tests/mutation``), so that not every one has to."""
    for rule in rules.catalogue():
        list(reports_of(rule))


@functools.cache
def in_files() -> dict[str, list[tuple[str, list[str]]]]:
    """What the files of the corpus say of each rule, model by model."""
    found: dict[str, list[tuple[str, list[str]]]] = {rule.code: [] for rule in rules.catalogue()}
    for group in corpus.GROUPS:
        for name, lines in sections(GOLDEN / f"corpus_{group.replace(' ', '_')}.txt").items():
            by_code: dict[str, list[str]] = {}
            for finding in findings(lines):
                by_code.setdefault(finding[0][:5], []).extend(finding)
            for code, own in by_code.items():
                found[code].append((name, own))
    return found


def findings(lines: list[str]) -> Iterator[list[str]]:
    """The lines of each finding: it begins at the margin with its code, the rest is indented."""
    starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    yield from (lines[start:stop] for start, stop in itertools.pairwise([*starts, len(lines)]))


def reported(case: Case) -> list[str]:
    return list(described(case.model, rules.catalogue(), case.compute_capabilities))


@functools.cache
def write_group(group: str, file: Path) -> None:
    lines = [line for case in corpus.sample(group) for line in (f"# {case.name}", *reported(case))]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@functools.cache
def sections(file: Path) -> dict[str, list[str]]:
    """What stands below each ``# name`` of a file."""
    found: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            found[line.removeprefix("# ")] = []
        else:
            found[next(reversed(found))].append(line)
    return found


@pytest.mark.parametrize("group", corpus.GROUPS)
def test_the_file_of_a_group_has_its_models_and_no_others(group: str):
    file = GOLDEN / f"corpus_{group.replace(' ', '_')}.txt"
    assert list(sections(file)) == [case.name for case in corpus.sample(group)]


def test_there_is_no_file_of_a_rule_that_is_gone():
    known = {rule.code for rule in RULES} | {f"corpus_{group.replace(' ', '_')}" for group in corpus.GROUPS}
    assert {path.stem for path in GOLDEN.iterdir()} == known


def compare(file: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if os.environ.get(WRITE):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
