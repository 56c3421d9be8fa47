"""The whole command on a small project: what tests notice is killed, the rest is shown."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

MODULE = """\
LIMIT = 3


def clipped(value, low):
    if value < low:
        return low
    return min(value, LIMIT)


def unused(a):
    return a + 1
"""
TESTS = """\
import os

from qdqtool.small import clipped

PROCESS = os.getpid()


def warm_up():
    with open("warm", "a") as file:
        file.write("once")


def test_low():
    assert clipped(0, 1) == 1


def test_high():
    assert clipped(9, 1) == 3


def test_process():
    # It fails without a fault too, in a child of the process that imported it.
    assert clipped(2, 1) == 2
    assert os.getpid() == PROCESS
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "qdqtool/__init__.py": "",
        "qdqtool/api/pytest_plugin.py": "",
        "qdqtool/small.py": MODULE,
        "tests/test_small.py": TESTS,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (project, ROOT / "tests", ROOT)))}
    # The plugins that are installed here take seconds to start, and the small tests need none.
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "tools.mutation", "qdqtool/small.py", "--jobs", "1", *words]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def mutants(project: Path, *words: str) -> str:
    done = run(project, *words)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def test_what_no_test_notices_is_shown(project: Path):
    printed = mutants(project, "--json", "out.json", "--idle", "9")
    found = json.loads((project / "out.json").read_text())
    alive = {(each["line"], each["after"]) for each in found["mutants"] if each["state"] == "alive"}
    assert alive == {(5, "if value <= low:"), (11, "return a - 1"), (11, "return a + 2")}
    assert found["areas"] == {"small.py": {"killed": 3, "alive": 3, "equivalent": 0, "untried": 0, "score": "50.0 %"}}
    killers = {(each["line"], each["result"]["killer"]) for each in found["mutants"] if each["state"] == "killed"}
    assert killers == {
        (1, "tests/test_small.py::test_high"),
        (5, "tests/test_small.py::test_low"),
        (7, "tests/test_small.py::test_high"),
    }
    *_, table, idle = printed.splitlines()
    assert table.split() == ["small.py", "6", "3", "3", "0", "0", "50.0", "%"]
    assert idle.split()[-1] == "tests/test_small.py::test_process"
    told = "not asked any more, since it fails without a fault: tests/test_small.py::test_process\n"
    assert printed.count(told) == 1

    # What tests share is read once for all mutants of a session. The sessions: those with all tests, those without the
    # test that fails by itself, and after each the tests that failed, without a fault. Tests are asked from the fastest
    # on, so that of tests this short chance decides whether that one is among the first that failed.
    assert (project / "warm").read_text() in {"once" * 3, "once" * 4}

    # A new test is asked about what was alive; what was killed is not tried again.
    with (project / "tests/test_small.py").open("a") as file:
        file.write("\n\ndef test_unused():\n    from qdqtool.small import unused\n    assert unused(1) == 2\n")
    assert mutants(project).splitlines()[-1].split() == ["small.py", "6", "5", "1", "0", "0", "83.3", "%"]


def test_an_unknown_revision_is_a_usage_error(project: Path):
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    done = run(project, "--changed", "nonsense")
    assert done.returncode == 2
    assert "Invalid value for '--changed': fatal: bad revision 'nonsense'" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_no_module_is_a_usage_error(project: Path):
    (project / "README.md").write_text("It's prose.\n")
    done = run(project, "README.md")
    assert done.returncode == 2
    assert "'README.md' is no module of Python" in done.stderr
