"""The page of the architecture is short; every path and make target that it and docstrings name exists."""

import ast
import re
from pathlib import Path

import pytest
from support.paths import ROOT

PAGE = (ROOT / "docs" / "developers" / "architecture.md").read_text(encoding="utf-8")
TESTING = (ROOT / "docs" / "developers" / "testing.md").read_text(encoding="utf-8")
MOST_WORDS = 2500
SUFFIXES = {".py", ".pyi", ".md", ".toml"}


def named(text: str) -> list[str]:
    """Paths in code spans: with a slash, or with the suffix of a file."""
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
    words = [word for span in spans for word in span.split() if "=" not in word and not word.startswith("qdqtool.")]
    return [
        word for word in words if re.fullmatch(r"[\w./-]+", word) and ("/" in word or Path(word).suffix in SUFFIXES)
    ]


def exists(path: str) -> bool:
    """Whether a path is in the package or in the project; of NAME.py the folder is looked for."""
    place = Path(path)
    if place.stem == "NAME":
        return any((root / place.parent).is_dir() for root in (ROOT / "qdqtool", ROOT))
    return any((root / place).exists() for root in (ROOT / "qdqtool", ROOT)) or is_beside(path)


def is_beside(name: str) -> bool:
    """Whether a file name alone is that of a file in a folder that the page names before it, in the same paragraph."""
    if "/" in name:
        return False
    paragraphs = [part for part in PAGE.split("\n\n") if f"`{name}`" in part]
    folders = [Path(path).parent for part in paragraphs for path in named(part) if "/" in path]
    return any((ROOT / "qdqtool" / folder / name).exists() for folder in folders)


def test_it_is_read_in_a_quarter_of_an_hour():
    assert len(PAGE.split()) <= MOST_WORDS


def test_every_path_exists():
    paths = named(PAGE)
    assert len(paths) > 80
    assert [path for path in paths if not exists(path)] == []


@pytest.mark.parametrize("package", sorted((ROOT / "qdqtool").glob("*/__init__.py")), ids=lambda path: path.parent.name)
def test_a_package_says_what_to_read_next(package: Path):
    text = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    assert all(f"\n{word}" in text for word in ("In: ", "Read next: "))
    paths = named(text.replace("``", "`"))
    assert [path for path in paths if not any((root / path).exists() for root in (package.parent, ROOT))] == []


def test_every_make_target_exists():
    targets = set(re.findall(r"`make ([\w-]+)", PAGE + TESTING))
    assert len(targets) > 8
    assert targets <= set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`models/plan.py` and `numerics`", ["models/plan.py"]),
        ("`linting/rules/NAME.py`, `CHANGELOG.md`", ["linting/rules/NAME.py", "CHANGELOG.md"]),
        ("`QDQTOOL_WRITE_GOLDEN=1 pytest tests/gone.py`", ["tests/gone.py"]),
        ("`qdqtool.models.plan` and `make lint`", []),
        ("```text\nmodels/gone.py\n```", []),
    ],
)
def test_paths_are_found(text: str, found: list[str]):
    assert named(text) == found


@pytest.mark.parametrize("path", ["models/gone.py", "gone/NAME.py", "tests/gone.py", "gone.py"])
def test_what_is_gone_is_told(path: str):
    assert not exists(path)
