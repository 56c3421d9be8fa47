"""The pages of the rule catalogue."""

from functools import cache
from pathlib import Path

from support.paths import ROOT

from qdqtool.linting import rules
from qdqtool.reports.markdown import rules as markdown
from qdqtool.reports.markdown.rules import write

pages = cache(markdown.pages)
"""Making them validates and fixes every example, which takes seconds."""


def test_there_is_an_index_and_a_page_for_each_rule():
    codes = [rule.code for rule in rules.catalogue()]
    index, *_ = pages().items()

    assert list(pages()) == ["README.md", *(f"{code}.md" for code in codes)]
    assert index[0] == "README.md"
    assert all(index[1].count(f"[{code}]({code}.md)") == 1 for code in codes)


def test_a_page_has_reason_remedy_impacts_and_examples():
    rule = rules.get("QP101")
    page = pages()["QP101.md"]

    assert page.startswith(f"# QP101 {rule.name}\n")
    assert "**Why it matters.** " in page
    assert f"**What to do.** {rule.remedy[:1].upper()}{rule.remedy[1:]}." in page
    assert "| target | severity | effect |" in page
    assert page.index("## Reported") < page.index("## Passed")
    fixed = page.count("\nFixed (*")
    assert fixed
    assert page.count("```") == 2 * (len(rule.INVALID) + len(rule.VALID) + fixed)


def test_an_example_shows_what_the_rule_says_and_what_the_fix_makes():
    page = pages()["QS001.md"]

    assert "* error, *silent*: QuantizeLinear -\\> q: neither zero point nor output\\_dtype:" in page
    assert "Fixed (*safe*: writes the zero point 0 of type uint8):\n\n```onnx\n" in page
    assert "<float s = {0.1}, uint8 s_zero_point = {0}>" in page


def test_writing_removes_pages_of_rules_that_are_gone(tmp_path: Path):
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "QX999.md").write_text("gone")
    (folder / "kept.txt").write_text("not a page")
    write(folder)

    assert {path.name for path in folder.iterdir()} == {*pages(), "kept.txt"}
    assert (folder / "QP101.md").read_text(encoding="utf-8") == pages()["QP101.md"]


def test_the_committed_pages_are_current():
    committed = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "rules").glob("*.md")}

    assert committed == pages(), "run python -m qdqtool.reports.markdown.rules docs/rules"
