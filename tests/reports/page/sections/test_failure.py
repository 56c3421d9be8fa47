"""A command that ended without a report leaves its message, and its hint where there is one."""

from pathlib import Path

from support.page_blocks import blocks_of, lines, of_failures
from support.saved_reports import ALL

from qdqtool.reports.page.sections.failure import blocks
from qdqtool.reports.saved.reading import FailedCommand, SavedReport


def failed(command: str, hint: str | None = None, exit_code: int = 4) -> SavedReport:
    content = FailedCommand(
        command=command, model="m.onnx", message=f"{command} needs a GPU", hint=hint, exit_code=exit_code
    )
    return SavedReport(command, command, content)


def test_message_and_hint_stand_below_the_command_and_its_exit_code():
    assert lines(of_failures(blocks, failed("build", "install tensorrt"))) == [
        ("qdqtool build ended with exit code 4", ("build needs a GPU", "Hint: install tensorrt"))
    ]


def test_every_failure_is_told_in_the_order_given_and_none_needs_a_hint():
    assert lines(of_failures(blocks, failed("check", exit_code=1), failed("build"))) == [
        ("qdqtool check ended with exit code 1", ("check needs a GPU",)),
        ("qdqtool build ended with exit code 4", ("build needs a GPU",)),
    ]


def test_reports_are_no_failures(tmp_path: Path):
    assert blocks_of(blocks, tmp_path, **ALL) == ()
