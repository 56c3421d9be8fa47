"""One version: the package's, the project file's, and what the command prints."""

import re
import tomllib

from support.command import qdqtool_process
from support.paths import ROOT

from qdqtool.results import __version__


def test_the_version_is_that_of_the_project_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__


def test_the_version_is_one_that_python_packaging_knows():
    assert re.fullmatch(r"\d+(\.\d+)+((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", __version__)


def test_the_command_prints_it():
    done = qdqtool_process("--version")
    assert done.code == 0
    assert __version__ in done.out
