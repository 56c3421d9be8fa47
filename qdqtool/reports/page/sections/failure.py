"""The failure of a command that ended without a report, and its hint."""

from qdqtool.reports.blocks import Block, Lines
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.reading import FailedCommand
from qdqtool.reports.saved.story import Story


def blocks(story: Story) -> tuple[Block, ...]:
    """Return the message and the hint of each command that failed."""
    return tuple(
        Lines(
            f"qdqtool {failed.command} ended with exit code {failed.exit_code}",
            (failed.message, *((f"Hint: {failed.hint}",) if failed.hint else ())),
        )
        for _, failed in story.each(FailedCommand)
    )


SECTION = Section(5, "Failure", (), blocks, is_open=True)
