"""The list of pages, and a page in a pipe and on a terminal."""

import io

import pytest
from support.printed import printed

from qdqtool.jobs.pages import Page
from qdqtool.reports.terminal import ReportConsole
from qdqtool.reports.text.manual import render_page

PAGE = Page("plan", "Plan files", "# Plan files\n\nSome *words* in a line that is longer than the terminal is wide.\n")


@pytest.mark.parametrize("columns", ["", "40"])
def test_a_pipe_gets_the_page_as_it_is(columns: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert printed(render_page, PAGE) == PAGE.text


def test_a_terminal_gets_it_laid_out(monkeypatch):
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    file = io.StringIO()
    render_page(PAGE, ReportConsole(file, verbose=False, width=40))
    assert "*words*" not in file.getvalue()
    assert "wide." in file.getvalue()
