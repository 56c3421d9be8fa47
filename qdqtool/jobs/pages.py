"""The pages of the manual, from the checkout or from the copies in an installed package."""

import re
from dataclasses import dataclass
from pathlib import Path

from qdqtool.errors import ArgumentError
from qdqtool.registry import suggestion

_PACKAGE = Path(__file__).resolve().parents[1]
_MANUALS = (_PACKAGE / "manual", _PACKAGE.parent / "docs")
"""The wheel has the pages inside the package; a checkout has them next to it."""
_FOLDERS = (".", "start", "how-to", "reference", "explanation")
"""Folders of pages for users, in the order of the site."""
_DIRECTIVE = re.compile(r"^::: .*\n(?:    .*\n|\n(?=    ))*", re.MULTILINE)
"""Matches a block in which the site shows the options of commands, or docstrings."""
_COMMANDS = {
    "bench": "build",
    "calibrate": "calibration",
    "convert": "quantize",
    "convert-ranges": "other-tools",
    "diff": "ci",
    "doctor": "command-line",
    "explain": "command-line",
    "insert": "files",
    "inspect": "command-line",
    "merge": "scale-out",
    "migrate": "from-trtexec",
    "normalize": "other-tools",
    "reduce": "failures",
    "report": "files",
    "rules": "validate",
    "run": "build",
    "schema": "files",
    "sensitivity": "accuracy",
    "cast": "half-precision",
    "strip": "other-tools",
    "verify-engine": "build",
}
"""For each command without a page of its own name, the page that describes it."""


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
    """All pages, in the order of the site, without their texts.

    Attributes:
        pages: The pages.
    """

    pages: tuple[Page, ...]


def manual() -> Manual:
    """Return the pages of the manual, without their texts."""
    return Manual(tuple(Page(name, _title(path), "") for name, path in _paths().items()))


def page_names() -> tuple[str, ...]:
    """Return the names of the pages, in the order of the site."""
    return tuple(_paths())


def topics() -> tuple[str, ...]:
    """Return the names that ``page`` accepts: names of pages and of commands."""
    return (*_paths(), *_COMMANDS)


def rule_codes() -> tuple[str, ...]:
    """Return the sorted codes of the rules, read from the index of their pages: this imports no rule."""
    index = (_folder() / "rules" / "README.md").read_text(encoding="utf-8")
    return tuple(sorted(re.findall(r'<a id="(\w+)">', index)))


def page(name: str) -> Page:
    """Return a page by its name or by the name of a command, such as ``convert``.

    Raises:
        ArgumentError: There is no page with that name.
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
