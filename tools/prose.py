"""Measure the sentences of pages, docstrings and messages, and hold them to limits: ``make lint`` fails beyond one.

    python tools/prose.py                    the figures, and what is over its limit
    python tools/prose.py --list long docs   every long sentence of the pages, with its place
    python tools/prose.py --sample 200       sentences drawn at random, to be judged by a reader; --seed N for others

Code, tables, headings and links' targets are no sentences. Pages that other programs write are not counted.
"""

import argparse
import ast
import random
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ("docs/reference/formats.md", "docs/developers/networks.md", "docs/developers/foreign.md")
LONG = 25
"""Words that a sentence may have."""
PRIVATE = re.compile(
    r"\b(says? so|had a say|ways? out|stands? (?:beside|behind|in front|for it)|loud(?:er|est)?|strays?|came by|houses?"
    r"|rooms?|told|of none|hands? on|as it is|unasked)\b",
    re.IGNORECASE,
)
INVERTED = re.compile(
    r"(?:(?:So|Nor) (?:is|are|does|do|has|have)|Of (?:a|an|the)|What (?:\w+ )?(?:is|are)"
    r"|(?:Refused|Compared|Left|Listed|Kept|Shown|Named|Counted|Judged|Measured|Not counted|Left out) (?:is|are))\b"
)
BRITISH = re.compile(
    r"\b\w*(?:olour|ehaviour|quali[sz]ation\b(?<=qualisation)|alisation|avour|licence|centre)\w*", re.IGNORECASE
)
SENTENCE_END = re.compile(r"[.!?][)\"']*( )(?=[A-Z`(\"'\[0-9])")
ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|cf|vs|No|approx)\.|^\d+\.)$")
KINDS = ("docs", "docstrings", "messages")
LIMITS: Mapping[str, float] = {"long": 8.0, "private": 0.0, "inverted": 0.0, "british": 0.0}
"""Percent of the sentences of each kind."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that somebody reads.

    Attributes:
        kind: One of ``KINDS``.
        place: File and line.
        text: The sentence; code in it is kept.
    """

    kind: str
    place: str
    text: str

    def faults(self) -> Iterator[str]:
        """Yield the name of each limit that counts this sentence."""
        if len(words(self.text)) > LONG:
            yield "long"
        prose = re.sub(r"`[^`]*`", "`x`", self.text)
        for name, pattern in (("private", PRIVATE), ("british", BRITISH)):
            if pattern.search(prose):
                yield name
        if INVERTED.match(self.text):
            yield "inverted"


def words(text: str) -> list[str]:
    """Return the words of a sentence; code in backticks is one word."""
    return re.findall(r"[\w`][^\s]*", re.sub(r"`[^`]*`", "`code`", text))


def split(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph of one line; code in backticks ends none."""
    start = 0
    for end in SENTENCE_END.finditer(text):
        sentence = text[start : end.start(1)]
        if sentence.count("`") % 2 == 0 and not ABBREVIATION.search(sentence):
            yield sentence
            start = end.end()
    yield text[start:]


def sentences(kind: str, place: str, text: str) -> Iterator[Sentence]:
    """Yield the sentences of a paragraph of at least three words each.

    Args:
        kind: One of ``KINDS``.
        place: Where the paragraph is.
        text: The paragraph.
    """
    for each in split(" ".join(text.split())):
        if len(words(each)) >= 3:
            yield Sentence(kind, place, each)


def markdown_sentences(kind: str, path: str, text: str, line: int = 1) -> Iterator[Sentence]:
    """Yield the sentences of paragraphs and list items of Markdown, without tables and headings.

    Args:
        kind: One of ``KINDS``.
        path: The file.
        text: The Markdown.
        line: The line of the file that it begins at.
    """
    tokens = MarkdownIt().enable("table").parse(text)
    skipped = 0
    for token in tokens:
        skipped += {"table_open": 1, "heading_open": 1, "table_close": -1, "heading_close": -1}.get(token.type, 0)
        if token.type == "inline" and not skipped:
            begin = line + (token.map[0] if token.map else 0)
            yield from sentences(kind, f"{path}:{begin}", readable(token))


def readable(token: Token) -> str:
    """Return the text of a paragraph: code in backticks, links by their words."""
    parts = {"code_inline": "`{}`", "softbreak": " ", "hardbreak": " ", "text": "{}"}
    return "".join(parts.get(child.type, "").format(child.content) for child in token.children or ())


def pages(root: Path) -> Iterator[Sentence]:
    """Yield the sentences of the README and the manual."""
    for path in (root / "README.md", root / "sample_models/README.md", *sorted((root / "docs").rglob("*.md"))):
        name = path.relative_to(root).as_posix()
        if name not in GENERATED and "/rules/" not in name:
            yield from markdown_sentences("docs", name, path.read_text(encoding="utf-8"))


def sources(root: Path) -> Iterator[Sentence]:
    """Yield the sentences of docstrings and messages of the package."""
    for path in sorted((root / "qdqtool").rglob("*.py")):
        name = path.relative_to(root).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node): node for node in docstring_nodes(tree)}
        for node in docstrings.values():
            yield from docstring_sentences(name, node)
        for node in message_nodes(tree):
            if id(node) not in docstrings:
                yield from sentences("messages", f"{name}:{node.lineno}", text_of(node))


def docstring_nodes(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the docstrings of modules, classes, functions and constants."""
    for node in ast.walk(tree):
        for each in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield each.value


def docstring_sentences(path: str, node: ast.Constant) -> Iterator[Sentence]:
    """Yield the sentences of a docstring; each entry of a section such as Args is a paragraph."""
    text = re.sub(r"``", "`", str(node.value))
    for paragraph in re.split(r"\n\s*\n|\n(?=\s+\*?\w+:\s)", text):
        entry = re.sub(r"^\s*(?:(?:Args|Returns|Raises|Attributes|Yields):\s*)?(?:\*{0,2}[\w.]+: )?", "", paragraph)
        if not re.match(r"\s*(?:>>>|\.\.|    )", paragraph.strip("\n")) or entry != paragraph:
            yield from sentences("docstrings", f"{path}:{node.lineno}", entry)


def message_nodes(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield texts with a space that code builds for users: arguments of errors, hints, helps and options."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            text = text_of(node)
            if text.count(" ") >= 3 and not text.startswith((" ", "\n")):
                yield node


def text_of(node: ast.expr) -> str:
    """Return a text as a user reads it, with X for each value."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else ""


def main() -> int:
    """Print the figures, sentences with a fault, or a sample."""
    parser = argparse.ArgumentParser(description="Measure the sentences of pages, docstrings and messages.")
    parser.add_argument("--list", nargs=2, metavar=("FAULT", "WHERE"), help="show sentences of a kind or path")
    parser.add_argument("--sample", type=int, metavar="N", help="draw N sentences at random")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    every = [*pages(ROOT), *sources(ROOT)]
    if given.sample:
        for each in random.Random(given.seed).sample(every, given.sample):
            print(f"{each.place}: {each.text}")
        return 0
    if given.list:
        fault, where = given.list
        for each in every:
            if fault in each.faults() and (each.kind == where or each.place.startswith(where)):
                print(f"{each.place}: {each.text}")
        return 0
    return report(every)


def report(every: list[Sentence]) -> int:
    """Print a line for each kind; return 1 where a share is over its limit."""
    missed = 0
    print("kind        sentences  words  " + "".join(f"{name:>10}" for name in LIMITS) + "   percent of the sentences")
    for kind in KINDS:
        own = [each for each in every if each.kind == kind]
        mean = sum(len(words(each.text)) for each in own) / len(own)
        shares = {name: 100 * sum(name in each.faults() for each in own) / len(own) for name in LIMITS}
        print(f"{kind:<12}{len(own):>9}{mean:>7.1f}  " + "".join(f"{share:>10.1f}" for share in shares.values()))
        missed += sum(share > LIMITS[name] for name, share in shares.items())
    if missed:
        print(f"{missed} over the limit: python tools/prose.py --list FAULT KIND shows the sentences", file=sys.stderr)
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
