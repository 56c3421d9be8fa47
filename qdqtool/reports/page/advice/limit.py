"""No limit on the accuracy was given: the next model may keep less, and no gate would say so."""

import math
from collections.abc import Iterator

from qdqtool.accuracy.checking.limits import ON_OUTPUTS
from qdqtool.reports.blocks import Step
from qdqtool.reports.page.advised import Advice, Files, compared, worst_output
from qdqtool.reports.saved.story import Story


def steps(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for each check that passed without a limit on its outputs."""
    for source, check in compared(story):
        output = worst_output(check)
        if not check.passed or ON_OUTPUTS & {gate.name for gate in check.gates} or output is None:
            continue
        assert output.sqnr_db is not None
        fact = f"The check had no limit on the accuracy [{source}]. A limit that this model keeps, for the next one:"
        yield Step(fact, files.check("--min-sqnr", f"{math.floor(output.sqnr_db)}"))


ADVICE = Advice(60, steps)
