"""tools/prose.py: sentences are found, and faults in them."""

import ast

import pytest

from tools import prose

LONG = " ".join(["word"] * 26) + "."


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("The scale is positive.", []),
        (LONG, ["long"]),
        (LONG.replace("word word", "`a b c d e`"), []),
        ("The report says so.", ["private"]),
        ("The option `loud` is gone.", []),
        ("So is the other scale.", ["inverted"]),
        ("Compared are the outputs.", ["inverted"]),
        ("What scales are written is told.", ["private", "inverted"]),
        ("The colour of the bar.", ["british"]),
    ],
)
def test_faults_of_a_sentence(text: str, faults: list[str]):
    assert list(prose.Sentence("docs", "page.md:1", text).faults()) == faults


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One scale is enough. Two are not.", ["One scale is enough.", "Two are not."]),
        ("It ran with 1.31.1. The file has `a. B` in it.", ["It ran with 1.31.1.", "The file has `a. B` in it."]),
        ("Some tools, e.g. ONNX Runtime, differ.", ["Some tools, e.g. ONNX Runtime, differ."]),
        ("(It is so.) Then it ends.", ["(It is so.)", "Then it ends."]),
    ],
)
def test_a_paragraph_is_split_into_sentences(text: str, found: list[str]):
    assert list(prose.split(text)) == found


def test_of_markdown_paragraphs_and_lists_count():
    page = "# A heading of four\n\nA [paragraph of text](x.md).\n\n* an item of words\n\n```sh\na b c d\n```\n\n| a b c |\n|---|\n| d e f |\n"
    found = list(prose.markdown_sentences("docs", "p.md", page))
    assert [(each.text, each.place) for each in found] == [
        ("A paragraph of text.", "p.md:3"),
        ("an item of words", "p.md:5"),
    ]


def test_docstrings_and_messages_are_told_apart():
    source = '''
def scale(value: float) -> float:
    """Return the scale of a value.

    Args:
        value: The value that counts here.
    """
    raise ValueError(f"the value {value} is not positive")
'''
    tree = ast.parse(source)
    (docstring,) = prose.docstring_nodes(tree)
    assert [each.text for each in prose.docstring_sentences("m.py", docstring)] == [
        "Return the scale of a value.",
        "The value that counts here.",
    ]
    assert "the value X is not positive" in [prose.text_of(node) for node in prose.message_nodes(tree)]


def test_a_share_over_its_limit_fails(capsys: pytest.CaptureFixture[str]):
    short = [prose.Sentence(kind, "p:1", "The scale is positive.") for kind in prose.KINDS]
    assert prose.report(short) == 0
    assert prose.report([*short, prose.Sentence("docs", "p:1", LONG)]) == 1
    assert "1 over the limit" in capsys.readouterr().err
