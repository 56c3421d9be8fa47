"""tools/budget.py: figures of a small package, limits, and reasons for raised limits."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.paths import ROOT

from tools import budget

CLI = """\
\"\"\"Commands.\"\"\"

import click

import qdqtool.one.small


class Command:
    \"\"\"A class.

    Two of its name.
    \"\"\"

    SIZE = 1
    \"\"\"How large.\"\"\"


# a comment
@click.group()
def command() -> None:
    pass


@command.command()
@click.option("--one", is_flag=True)
@click.option("--two")
def run(one, two):
    from qdqtool.one import small
"""
FILES = {
    "qdqtool/__init__.py": "__all__ = ['a', 'b', 'c']\n",
    "qdqtool/cli/__init__.py": CLI,
    "qdqtool/one/__init__.py": "",
    "qdqtool/one/deep/__init__.py": "",
    "qdqtool/one/deep/leaf.py": "from qdqtool.one.small import (\n    CONSTANT,\n)\n",
    "qdqtool/one/small.py": "CONSTANT = 1\ndef late():\n    from qdqtool.one.deep import leaf\nclass Command: pass\n",
    "qdqtool/schemas/a.json": "{\n}\n",
    "docs/glossary.md": "# Glossary\n\n| word | meaning |\n|---|---|\n| Q | quantize |\n| DQ | dequantize |\n",
    "pyproject.toml": '[[tool.importlinter.contracts]]\ntype = "layers"\nlayers = ["cli", "one"]\n',
}
KINDS = {"code": 13, "comment": 1, "docstring": 6, "import": 7, "blank": 9}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package of another layout."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_figures_of_a_small_package(tree: Path):
    assert budget.measure(tree) == {
        "packages": 2,
        "subpackages": 1,
        "root modules": 1,
        "layers": 2,
        "modules": 6,
        "median module": 2,
        "largest module": 28,
        "lines": 36,
        **{f"{kind} lines": count for kind, count in KINDS.items()},
        "single-importer modules": 1,
        "class names used twice": 1,
        "options": 2,
        "public names": 3,
        "glossary terms": 2,
        "generated lines": 2,
    }
    assert sum(KINDS.values()) == 36


def test_a_line_counts_once():
    text = 'x = """not a docstring"""\nimport os; y = 1\n\n"""A docstring\n\nwith a blank line."""\n'
    assert budget.line_kinds(text, ast.parse(text)) == {"code": 1, "import": 1, "blank": 1, "docstring": 3}


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"modules": 6}, []),
        ({"modules": 5}, ["modules: 6, limit 5 (+1)"]),
        ({"lines": 1000, "modules": 5}, ["lines: 1,234, limit 1,000 (+234)", "modules: 6, limit 5 (+1)"]),
        ({"moduls": 6}, ["moduls: there is no such figure; remove it from tools/budget.toml"]),
        ({"test seconds": 1}, []),
    ],
)
def test_a_figure_beyond_its_limit_is_told(limits: dict[str, int], told: list[str]):
    entries = {name: {"limit": limit, "why": "reason"} for name, limit in limits.items()}
    assert list(budget.exceeded({"modules": 6, "lines": 1234}, entries)) == told


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ({"modules": {"limit": 820, "why": "old"}}, []),
        ({"modules": {"limit": 810, "why": "old"}}, []),
        ({"modules": {"limit": 1821, "why": "a new package"}}, []),
        ({"modules": {"limit": 1821, "why": "old"}}, ["modules: raised from 820 to 1,821, and its `why` is unchanged"]),
        ({}, ["modules: its limit was removed"]),
    ],
)
def test_a_limit_is_raised_with_a_reason_only(new: dict[str, dict[str, object]], told: list[str]):
    assert list(budget.raised({"modules": {"limit": 820, "why": "old"}}, new)) == told


def test_every_limit_has_a_reason_and_a_figure(tree: Path):
    limits = tomllib.loads((ROOT / budget.LIMITS).read_text())
    assert all(entry.keys() == {"limit", "why"} and entry["why"].endswith(".") for entry in limits.values())
    assert limits.keys() - set(budget.MEASURED) <= budget.measure(tree).keys()


def test_history_shows_commits_without_checking_them_out(tree: Path, monkeypatch: pytest.MonkeyPatch):
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tree, check=True)
    (tree / "qdqtool" / "one" / "small.py").write_text("")
    (tree / "qdqtool" / "new.py").write_text("")
    monkeypatch.setattr(budget, "ROOT", tree)
    head, *rows = budget.history(["HEAD", "HEAD"]).splitlines()
    assert len(set(head.split())) == 1
    assert "modules                          6          6" in rows
    assert (tree / "qdqtool" / "new.py").read_text() == ""


def test_generated_files_that_git_does_not_have_are_not_counted(tree: Path):
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    (tree / "docs" / "rules").mkdir()
    (tree / "docs" / "rules" / "QP101.md").write_text("made\n")
    (tree / ".gitignore").write_text("/docs/rules/Q*.md\n")
    assert budget.generated(tree) == {tree / "qdqtool/schemas/a.json"}


def test_the_program_ends_with_one_where_a_limit_is_exceeded(tree: Path, monkeypatch: pytest.MonkeyPatch):
    (tree / "tools").mkdir()
    limits = tree / budget.LIMITS
    limits.write_text('[modules]\nlimit = 6\nwhy = "As it is."\n')
    monkeypatch.setattr(budget, "ROOT", tree)
    monkeypatch.setattr(sys, "argv", ["budget.py"])
    budget.main()
    limits.write_text('[modules]\nlimit = 5\nwhy = "As it is."\n')
    with pytest.raises(SystemExit, match=r"modules: 6, limit 5 \(\+1\)\nMake it smaller, or raise"):
        budget.main()
    limits.write_text('["test seconds"]\nlimit = 2\nwhy = "As it is."\n')
    budget.main()
