"""Tests are found that reach a line, the nearest first."""

import json
from pathlib import Path

import coverage
import pytest

from tools.mutation.reach import Reach, distance, lines_of_functions, lines_then, selection


@pytest.mark.parametrize(
    ("test", "far"),
    [
        ("tests/rules/fixes/test_pair.py::test_a[1]", 0),
        ("tests/rules/fixes/test_other.py::test_a", 2),
        ("tests/rules/test_pair.py::test_a", 3),
        ("tests/graph/test_pair.py::test_a", 4),
        ("tests/test_pair.py::test_a", 4),
    ],
)
def test_a_test_in_its_place_is_nearest(test: str, far: int):
    assert distance("qdqtool/rules/fixes/pair.py", test) == far
    assert distance("qdqtool/rules/fixes/_pair.py", test) == far


def test_lines_of_a_file_that_did_not_change_are_the_same():
    assert lines_then("a\nb\n", "a\nb\n") == {}


def test_lines_are_found_again_where_others_were_added_and_removed():
    then = lines_then("a\nb\nc\nd\n", "new\na\nb\nd\n")
    assert [then[number] for number in (2, 3, 4)] == [1, 2, 4]


def test_a_changed_line_is_taken_for_the_one_in_its_place():
    assert lines_then("a\nb\nc\n", "a\nB\nc\n") == {1: 1, 2: 2, 3: 3}
    # An added line is reached by what reaches the line before it.
    assert lines_then("a\nb\n", "a\nx\ny\nb\n") == {1: 1, 2: 1, 3: 1, 4: 2}


def test_lines_that_run_while_a_module_is_imported_are_told_from_those_of_functions():
    function = "def one(a=LIMIT):\n    b = a\n    return b\n"
    text = f"LIMIT = 3\n{function}class C:\n    x = 1\n    def two(self): return 2\n"
    assert lines_of_functions(text) == {3, 4, 7}


def test_tests_of_a_line_share_the_time(tmp_path: Path):
    """What takes long is asked when as much time went into the parameters of another test."""
    seconds = {
        "tests/t.py::slow": 2.5,
        "tests/t.py::other": 0.5,
        **{f"tests/t.py::many[{n}]": 1.0 + n / 100 for n in range(4)},
    }
    part = tmp_path / "0000"
    part.mkdir()
    for name, found in {
        "seconds": seconds,
        "files": {"tests/t.py": ""},
        "sources": {"qdqtool/m.py": "a = 1\n"},
    }.items():
        (part / f"{name}.json").write_text(json.dumps(found))
    (tmp_path / "qdqtool").mkdir()
    (tmp_path / "qdqtool/m.py").write_text("a = 1\n")
    measured = coverage.CoverageData(str(part / "lines"))
    for test in seconds:
        measured.set_context(test)
        measured.add_lines({"qdqtool/m.py": [1]})
    measured.write()
    asked = [test.removeprefix("tests/t.py::") for test in Reach(tmp_path, tmp_path).of("qdqtool/m.py", [1])]
    assert asked == ["other", "many[0]", "many[1]", "slow", "many[2]", "many[3]"]


@pytest.mark.parametrize(("uncompiled", "silent"), [("0", False), ("1", True)])
def test_integers_wrap_in_silence_without_compiling_as_they_do_compiled(uncompiled, silent, monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", uncompiled)
    assert ("ignore::RuntimeWarning" in selection()) is silent
