"""Functions in scripts: the words that name them, and what is told of them. Readers of data have the rest."""

import functools
import sys
from pathlib import Path

import pytest

from qdqtool.errors import UsageError
from qdqtool.samples.script import UserFunction, load_function, split_script


@pytest.mark.parametrize(
    ("word", "split"),
    [
        ("a.py", ("a.py", "")),
        ("a.py:f", ("a.py", "f")),
        ("b/a.py:_f2", ("b/a.py", "_f2")),
        ("a.py:not a name", None),
        ("a.py:", None),
        ("a:f", None),
        ("top-1:a.b", None),
    ],
)
def test_a_script_is_told_by_its_name_whether_it_is_there_or_not(word: str, split: tuple[str, str] | None) -> None:
    found = split_script(word)
    assert (found and (str(found[0]), found[1])) == split


def test_a_function_of_a_script_is_named_with_its_file_and_one_of_a_caller_without(tmp_path: Path) -> None:
    path = tmp_path / "s.py"
    path.write_text("\n\ndef f():\n    return g()\n\ndef g():\n    raise SystemExit('no')\n")
    scripted = load_function(path, "f", "doing something")
    assert (scripted.where, scripted.line) == (f"{path}: f()", 3)
    with pytest.raises(UsageError, match=r"s\.py: f\(\) raised SystemExit in line 7: no"), scripted.running():
        scripted.function()
    called = UserFunction.of(scripted.function)
    assert (called.where, called.line) == ("f()", 3)
    with pytest.raises(UsageError, match=r"^f\(\) raised SystemExit in line 7: no$"), called.running():
        called.function()


@pytest.mark.parametrize(("kind", "expected"), [(BaseException, UsageError), (KeyboardInterrupt, KeyboardInterrupt)])
def test_what_is_no_exception_is_an_error_too_but_for_ctrl_c(
    kind: type[BaseException], expected: type[BaseException]
) -> None:
    with pytest.raises(expected), UserFunction.of(max).running():
        raise kind


def test_a_script_that_was_changed_at_once_is_read_again_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "s.py"
    for number in (1, 2):  # as many bytes, in the same second
        path.write_text(f"def f():\n    return {number}\n")
        assert load_function(path, "f", "doing something").function() == number
    assert [each.name for each in tmp_path.iterdir()] == ["s.py"]


class Callable:
    def __call__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("function", "name"),
    [(max, "max"), (Callable(), "Callable"), (functools.partial(max, 1), "partial")],
    ids=["builtin", "callable", "partial"],
)
def test_a_callable_without_source_has_a_name_and_no_line(function: object, name: str) -> None:
    found = UserFunction.of(function)
    assert (found.name, found.where, found.line, found.file) == (name, f"{name}()", None, None)


def test_what_a_function_prints_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with UserFunction.of(print).running():
        sys.stdout.write("said\n")
    assert capsys.readouterr() == ("", "said\n")
