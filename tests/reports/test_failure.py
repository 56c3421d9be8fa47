"""A failure on stderr: whole in a pipe, broken between words on a terminal, and a hint that can be pasted."""

import io

import pytest

from qdqtool.reports.failure import MOST_CHARACTERS, Failure, tell

FAILURE = Failure("error: the model does not run on the only sample that there is", "`--data DATA " + "x" * 60 + "`", 2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.usefixtures("narrow")
def test_a_terminal_gets_whole_words_and_a_hint_in_one_line(monkeypatch: pytest.MonkeyPatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    tell(FAILURE)

    first, second, hint = stream.getvalue().splitlines()
    assert f"{first} {second.strip()}" == FAILURE.message
    assert len(first) <= 40
    assert hint == f"hint: {FAILURE.hint}"


@pytest.mark.usefixtures("narrow")
def test_a_pipe_gets_one_line_each(capsys: pytest.CaptureFixture[str]):
    tell(FAILURE)
    assert capsys.readouterr().err.splitlines() == [FAILURE.message, f"hint: {FAILURE.hint}"]


@pytest.mark.parametrize("length", [MOST_CHARACTERS, MOST_CHARACTERS + 1, 10**6])
def test_the_middle_of_an_endless_message_is_left_out(length: int, capsys: pytest.CaptureFixture[str]):
    message = f"error: 'a{'x' * (length - 14)}' fails"
    tell(Failure(message, None, 3))
    told = capsys.readouterr().err.strip()
    assert (told == message) is (len(message) <= MOST_CHARACTERS)
    assert (told[:9], told[-8:]) == ("error: 'a", "x' fails")
    assert len(told) <= MOST_CHARACTERS
