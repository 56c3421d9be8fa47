"""What every rule reports, and what each of its fixes would edit, word for word: ``tests/golden/findings``.

There is a file for the INVALID examples of each rule, and one for a sample of each group of the corpus with all rules
at work. After a change that is meant, write the files again and read what git shows:

    QDQTOOL_WRITE_GOLDEN=1 pytest tests/rules/test_reports.py
"""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from support import corpus
from support.findings_text import described
from support.paths import ROOT

from qdqtool import rules
from qdqtool.rules import Rule

GOLDEN = ROOT / "tests" / "golden" / "findings"
WRITE = "QDQTOOL_WRITE_GOLDEN"
RULES = [rule for rule in rules.catalogue() if rule.INVALID]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_what_a_rule_reports_of_its_examples(rule: Rule):
    lines: list[str] = []
    for example in rule.INVALID:
        lines += [f"# {example.title}", *described(example.model(), [rule], example.compute_capabilities)]
    compare(GOLDEN / f"{rule.code}.txt", lines)


@pytest.mark.parametrize("group", corpus.GROUPS)
def test_what_all_rules_report_of_the_corpus(group: str):
    lines: list[str] = []
    for case in corpus.sample(group):
        lines += [f"# {case.name}", *described(case.model, rules.catalogue(), case.compute_capabilities)]
    compare(GOLDEN / f"corpus_{group.replace(' ', '_')}.txt", lines)


def test_there_is_no_file_of_a_rule_that_is_gone():
    known = {rule.code for rule in RULES} | {f"corpus_{group.replace(' ', '_')}" for group in corpus.GROUPS}
    assert {path.stem for path in GOLDEN.iterdir()} == known


def compare(file: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if os.environ.get(WRITE):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
