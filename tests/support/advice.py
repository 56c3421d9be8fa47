"""Steps that the page advises, with the check that each command is one of the command line."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from qdqtool.reports.blocks import Step
from qdqtool.reports.page.advised import Files
from qdqtool.reports.saved.reading import read_reports
from qdqtool.reports.saved.story import Story, join
from support.block_checks import command_fault
from support.saved_reports import save

Advise = Callable[[Story, Files], Iterator[Step]]


def steps_of(advise: Advise, folder: Path, **documents: Any) -> list[Step]:
    """The steps of one kind of advice; each command has to exist, with its options and their values."""
    story = join(read_reports(save(folder, **documents)))
    found = list(advise(story, Files.of(story)))
    for step in found:
        fault = command_fault(tuple(shlex.split(step.command)))
        assert fault is None, f"{step.command}: {fault}"
    return found


def commands_of(advise: Advise, folder: Path, **documents: Any) -> list[str]:
    """The commands of one kind of advice."""
    return [step.command for step in steps_of(advise, folder, **documents)]
