"""``qdqtool explain``: a rule, a page of the manual, or the list of pages."""

import json

import pytest
from click.testing import CliRunner, Result

from qdqtool.cli import command


def explain(*words: str) -> Result:
    return CliRunner().invoke(command, ["explain", *words])


def test_a_rule_is_found_by_code_name_and_page():
    by_code = explain("QP101")
    assert by_code.exit_code == 0
    assert by_code.output.startswith("QP101 parameters.scale-value (since ")
    for name in ("qp101", "parameters.scale-value", "docs/rules/QP101.md"):
        assert explain(name).output == by_code.output
    document = json.loads(explain("QP101", "--output-format", "json").output)
    assert document["code"] == "QP101"
    assert document["invalid"][0]["text"].startswith("agraph (float[1,2] x)")


@pytest.mark.parametrize("name", ["files", "files.md", "docs/reference/files.md", "insert"])
def test_a_page_is_shown_as_it_is_written(name: str):
    done = explain(name)
    assert done.exit_code == 0
    assert done.output.startswith("# Files and reports")
    assert json.loads(explain(name, "--output-format", "json").output)["title"] == "Files and reports"


def test_without_a_topic_the_pages_are_listed():
    lines = explain().output.splitlines()
    assert ["files", "Files and reports"] in [line.split(None, 1) for line in lines]
    assert "`qdqtool explain PAGE` shows one" in lines[-1]


def test_an_unknown_topic_leads_to_both_lists():
    done = explain("plam")
    assert done.exception is not None
    assert "`qdqtool rules` lists all rules; `qdqtool explain` lists the pages" in str(
        getattr(done.exception, "hint", "")
    )
