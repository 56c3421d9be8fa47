"""The pages of the rule catalogue."""

from functools import cache
from pathlib import Path

import pytest
from support.block_checks import faults
from support.code_blocks import read_blocks

from qdqtool.linting import rules
from qdqtool.reports.markdown import rules as markdown
from qdqtool.reports.markdown.rules import write

pages = cache(markdown.pages)
"""Making them validates and fixes every example, which takes seconds."""


def test_there_is_an_index_and_a_page_for_each_rule():
    codes = [rule.code for rule in rules.catalogue()]
    assert list(pages()) == ["README.md", *(f"{code}.md" for code in codes)]
    assert pages()["README.md"] == markdown.index()
    assert all(markdown.index().count(f'<a id="{code}"></a>') == 1 for code in codes)


def test_a_page_has_reason_remedy_impacts_and_examples():
    rule = rules.get("QP101")
    page = pages()["QP101.md"]

    assert page.startswith(f"# QP101 {rule.name}\n")
    assert "**Why it matters.** " in page
    assert f"**What to do.** {rule.remedy[:1].upper()}{rule.remedy[1:]}." in page
    assert "| target | severity | effect |" in page
    assert page.index("## Reported") < page.index("## Passed")
    assert "has no automatic fix" not in page
    assert "has no automatic fix" in pages()["QP106.md"]
    fixed = page.count("\nFixed (*")
    assert fixed
    assert page.count("```") == 2 * (len(rule.INVALID) + len(rule.VALID) + fixed)


def test_an_example_shows_what_the_rule_says_and_what_the_fix_makes():
    page = pages()["QS001.md"]
    assert "* error, *silent*: QuantizeLinear -\\> q: this Q has no zero point and no output\\_dtype:" in page
    assert "Fixed (*safe*: writes the zero point 0 of type uint8):\n\n```onnx\n" in page
    assert "<float s = {0.1}, uint8 s_zero_point = {0}>" in page


def test_writing_removes_pages_of_rules_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(markdown, "pages", pages)
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "QX999.md").write_text("gone")
    (folder / "kept.txt").write_text("not a page")
    write(folder)

    assert {path.name for path in folder.iterdir()} == {*pages(), "kept.txt"}
    assert (folder / "QP101.md").read_text(encoding="utf-8") == pages()["QP101.md"]


def test_every_example_is_a_model():
    examples = {name: text for name, text in pages().items() if name != "README.md"}
    blocks = [block for name, text in examples.items() for block in read_blocks(text, name)]
    assert len(blocks) > 300
    assert {block.tag for block in blocks} == {"onnx"}
    assert {str(block): found for block in blocks if (found := faults(block))} == {}
