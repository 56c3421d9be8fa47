"""Next steps: facts of the reports, each with a command."""

from collections.abc import Iterator

from qdqtool.engines.build.report import EngineReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.reports.blocks import Block, Lines, Steps
from qdqtool.reports.page.advice import EVERY_ADVICE
from qdqtool.reports.page.advised import Files
from qdqtool.reports.page.section import Section
from qdqtool.reports.page.verdict import judge
from qdqtool.reports.saved.reading import FailedCommand
from qdqtool.reports.saved.story import Story

NOTE = (
    "Replace words in capitals by your files. Add the options of the first run that the reports do not contain, such "
    "as options for images or shapes."
)


def blocks(story: Story) -> tuple[Block, ...]:
    """Return the steps, or a note that there is nothing to change, with a list of unknown facts.

    If the command ended without a report, there are no steps: the section about its failure has the hint.
    """
    if story.first(FailedCommand) is not None:
        return ()
    files = Files.of(story)
    found = tuple(step for advise in EVERY_ADVICE for step in advise(story, files))
    if found:
        return (Steps(found, NOTE),)
    if judge(story).overall == "failed":
        return (Lines("No fix is known", ("The verdict names the failure; the reports have no fix for it.",)),)
    return (Lines("Nothing to change", ("No report gives a reason to change anything.", *_unknown(story))),)


def _unknown(story: Story) -> Iterator[str]:
    if story.first(SensitivityReport) is None:
        yield "Not known: the noise of each layer (qdqtool sensitivity)."
    if story.first(EngineReport) is not None:
        yield "Not known: the speed of the engine (qdqtool bench)."
    yield "Not known: the accuracy on data that the reports did not use."


SECTION = Section(8, "What to try next", (), blocks, is_open=True)
