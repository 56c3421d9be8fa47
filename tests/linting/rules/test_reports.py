"""What every rule reports, and what each of its fixes would edit, word for word: ``tests/golden/findings``.

There is a file for the INVALID examples of each rule, and one for a sample of each group of the corpus with all rules
at work. The models of the corpus are read once for all rules. After a change that is meant, write the files again and
read what git shows:

    QDQTOOL_WRITE_GOLDEN=1 pytest tests/linting/rules/test_reports.py
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

from qdqtool.linting import rules
from qdqtool.linting.rules import Rule, RuleContext
from qdqtool.models.graph.model import Model

GOLDEN = ROOT / "tests" / "golden" / "findings"
WRITE = "QDQTOOL_WRITE_GOLDEN"
RULES = [rule for rule in rules.catalogue() if rule.INVALID]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_what_a_rule_reports_of_its_examples(rule: Rule):
    lines: list[str] = []
    for example in rule.INVALID:
        lines += [f"# {example.title}", *described(example.model(), [rule], example.compute_capabilities)]
    compare(GOLDEN / f"{rule.code}.txt", lines)


@pytest.mark.slow(reason="builds the whole corpus")
@pytest.mark.parametrize("rule", rules.catalogue(), ids=lambda rule: rule.code)
def test_what_a_rule_reports_of_the_whole_corpus(rule: Rule):
    if os.environ.get(WRITE):
        write_groups()
    assert list(reports_of(rule)) == in_files()[rule.code]


def reports_of(rule: Rule) -> Iterator[tuple[str, list[str]]]:
    for case, context in read_corpus():
        if lines := list(reports(context, [rule], case.compute_capabilities)):
            yield case.name, lines


@functools.cache
def read_corpus() -> list[tuple[Case, RuleContext]]:
    return [(case, RuleContext(Model(case.model))) for group in corpus.GROUPS for case in corpus.sample(group)]


def warm_up() -> None:
    """Read the corpus before mutants are tried (``tools/mutation``), so that not every one has to."""
    for rule in rules.catalogue():
        list(reports_of(rule))


@functools.cache
def in_files() -> dict[str, list[tuple[str, list[str]]]]:
    """What the files of the corpus say of each rule, model by model."""
    found: dict[str, list[tuple[str, list[str]]]] = {rule.code: [] for rule in rules.catalogue()}
    for group in corpus.GROUPS:
        for name, lines in sections(file_of(group)).items():
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


@functools.cache
def write_groups() -> None:
    for group in corpus.GROUPS:
        lines = [line for case in corpus.sample(group) for line in (f"# {case.name}", *reported(case))]
        file_of(group).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def reported(case: Case) -> list[str]:
    return list(described(case.model, rules.catalogue(), case.compute_capabilities))


def file_of(group: str) -> Path:
    return GOLDEN / f"corpus_{group.replace(' ', '_')}.txt"


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
    assert list(sections(file_of(group))) == [case.name for case in corpus.sample(group)]


def test_there_is_no_file_of_a_rule_that_is_gone():
    known = {f"{rule.code}.txt" for rule in RULES} | {file_of(group).name for group in corpus.GROUPS}
    assert {path.name for path in GOLDEN.iterdir()} == known


def compare(file: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if os.environ.get(WRITE):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
