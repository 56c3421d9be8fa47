"""The pages of the manual: those of the checkout, or the copies in an installed package."""

import re
from dataclasses import dataclass
from pathlib import Path

from qdqtool.errors import ArgumentError
from qdqtool.registry import suggestion

_PACKAGE = Path(__file__).resolve().parents[1]
_FOLDERS = (_PACKAGE / "manual", _PACKAGE.parent / "docs")
"""The wheel has the pages inside the package; a checkout has them beside it."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the manual.

    Attributes:
        name: What it is called by.
        title: Its first heading.
        text: The whole page, as Markdown.
    """

    name: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Manual:
    """Every page, sorted by name; the text of each is left out.

    Attributes:
        pages: The pages.
    """

    pages: tuple[Page, ...]


def manual() -> Manual:
    """List the pages of the manual."""
    return Manual(tuple(Page(name, _title(_read(name)), "") for name in page_names()))


def page_names() -> tuple[str, ...]:
    """The names of the pages, sorted."""
    return tuple(sorted(path.stem for path in _folder().glob("*.md")))


def rule_codes() -> tuple[str, ...]:
    """The codes of the rules, sorted, as the index of their pages lists them: this imports no rule."""
    index = (_folder() / "rules" / "README.md").read_text(encoding="utf-8")
    return tuple(sorted(re.findall(r'<a id="(\w+)">', index)))


def page(name: str) -> Page:
    """Return a page by its name, such as ``plan``.

    Raises:
        ArgumentError: There is none of that name.
    """
    if name not in page_names():
        raise ArgumentError(f"there is no page '{name}'{suggestion(name, page_names())}")
    text = _read(name)
    return Page(name, _title(text), text)


def _folder() -> Path:
    return next((folder for folder in _FOLDERS if folder.is_dir()), _FOLDERS[0])


def _read(name: str) -> str:
    return (_folder() / f"{name}.md").read_text(encoding="utf-8")


def _title(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ").strip()
