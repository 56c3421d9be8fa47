"""The pages of the manual: those of the checkout, or the copies in an installed package."""

import re
from dataclasses import dataclass
from pathlib import Path

from qdqtool.errors import ArgumentError
from qdqtool.registry import suggestion

_PACKAGE = Path(__file__).resolve().parents[1]
_MANUALS = (_PACKAGE / "manual", _PACKAGE.parent / "docs")
"""The wheel has the pages inside the package; a checkout has them beside it."""
_FOLDERS = (".", "start", "how-to", "reference", "explanation")
"""Folders of pages for users, in the order of the site."""
_DIRECTIVE = re.compile(r"^::: .*\n(?:    .*\n|\n(?=    ))*", re.MULTILINE)
"""A block that the site replaces by the options of commands, or by docstrings."""
_COMMANDS = {
    "bench": "build",
    "calibrate": "calibration",
    "convert": "quantize",
    "convert-ranges": "other-tools",
    "diff": "check",
    "doctor": "command-line",
    "explain": "command-line",
    "insert": "files",
    "inspect": "command-line",
    "merge": "scale-out",
    "normalize": "other-tools",
    "reduce": "failures",
    "report": "files",
    "rules": "validate",
    "run": "build",
    "schema": "files",
    "sensitivity": "accuracy",
    "strip": "other-tools",
    "verify-engine": "build",
}
"""The page of each command that has no page of its own name."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the manual.

    Attributes:
        name: The name for ``qdqtool explain``.
        title: The first heading of the page.
        text: The whole page, as Markdown.
    """

    name: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Manual:
    """Every page, in the order of the site, without its text.

    Attributes:
        pages: The pages.
    """

    pages: tuple[Page, ...]


def manual() -> Manual:
    """List the pages of the manual."""
    return Manual(tuple(Page(name, _title(path), "") for name, path in _paths().items()))


def page_names() -> tuple[str, ...]:
    """Return the names of the pages, in the order of the site."""
    return tuple(_paths())


def topics() -> tuple[str, ...]:
    """Return the names that ``page`` takes: those of pages and commands."""
    return (*_paths(), *_COMMANDS)


def rule_codes() -> tuple[str, ...]:
    """The codes of the rules, sorted, as the index of their pages lists them: this imports no rule."""
    index = (_folder() / "rules" / "README.md").read_text(encoding="utf-8")
    return tuple(sorted(re.findall(r'<a id="(\w+)">', index)))


def page(name: str) -> Page:
    """Return a page by its name or that of a command, such as ``convert``.

    Raises:
        ArgumentError: There is none of that name.
    """
    paths = _paths()
    name = _COMMANDS.get(name, name)
    if name not in paths:
        raise ArgumentError(f"there is no page '{name}'{suggestion(name, topics())}")
    return Page(name, _title(paths[name]), _DIRECTIVE.sub("", paths[name].read_text(encoding="utf-8")))


def _folder() -> Path:
    return next((folder for folder in _MANUALS if folder.is_dir()), _MANUALS[0])


def _paths() -> dict[str, Path]:
    return {path.stem: path for folder in _FOLDERS for path in sorted((_folder() / folder).glob("*.md"))}


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()
