"""The fenced code blocks of a Markdown page, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from support.paths import ROOT

PAGES = (
    ROOT / "README.md",
    ROOT / "sample_models" / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "rules"),
    ROOT / "docs" / "rules" / "README.md",
)
"""Every page in git that users read."""

TITLE = re.compile(r'\s+title="([\w-]+)"$')
"""The format of data, as the site shows it above a block."""
EXIT_CODE = re.compile(r"#.*\bexit code (\d+)$")


@dataclass(frozen=True, slots=True)
class Command:
    """A command line of a block.

    Attributes:
        text: The line, without its prompt.
        words: The words as a shell splits them, without comment and redirection.
        exit_code: How it ends: 0 unless its comment says otherwise.
        stdout: The file that it is redirected to, or None.
        shown: The lines of output that the block shows below it.
    """

    text: str
    words: tuple[str, ...]
    exit_code: int
    stdout: str | None
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block.

    Attributes:
        page: The page, relative to the project.
        line: The line of its opening fence.
        tag: Language and, for data, the format: ``console``, ``toml plan-file``.
        text: What is between the fences.
        is_output: Whether it stands directly below a block of Python, with no text between: it is what that prints.
    """

    page: str
    line: int
    tag: str
    text: str
    is_output: bool = False

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands of a ``console`` block, each with what it prints, or of an ``sh`` block, one a line."""
        lines = self.text.splitlines()
        if self.tag == "sh":
            return tuple(_command(line) for line in lines if line.strip())
        if self.tag != "console":
            return ()
        starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
        ends = [*starts[1:], len(lines)]
        return tuple(
            _command(lines[at].removeprefix("$ "), tuple(line for line in lines[at + 1 : end] if line.strip()))
            for at, end in zip(starts, ends, strict=False)
        )


def blocks_of(page: Path) -> tuple[Block, ...]:
    """Return the blocks of a page in their order."""
    return tuple(read_blocks(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix()))


def read_blocks(text: str, page: str) -> Iterator[Block]:
    """Yield the blocks of a text; indented code without a fence has the tag ``""`` too."""
    before = None
    for token in MarkdownIt().parse(text):
        if token.type in {"fence", "code_block"}:
            assert token.map is not None
            tag = TITLE.sub(r" \1", token.info.strip())
            is_output = tag == "text" and before is not None and before.type == "fence" and before.info == "python"
            yield Block(page, token.map[0] + 1, tag, token.content, is_output)
        before = token


def _command(line: str, shown: tuple[str, ...] = ()) -> Command:
    found = EXIT_CODE.search(line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=">")
    lexer.whitespace_split = True
    words = list(lexer)
    stdout = None
    if ">" in words:
        at = words.index(">")
        stdout = words[at + 1]
        del words[at : at + 2]
    return Command(line, tuple(words), int(found[1]) if found else 0, stdout, shown)
