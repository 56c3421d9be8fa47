"""A question of the verdict has no answer: the command that answers it."""

from collections.abc import Iterator

from qdqtool.jobs.advice import command
from qdqtool.reports.blocks import Step
from qdqtool.reports.page.advised import Advice, Files
from qdqtool.reports.page.verdict import QUESTIONS, Question, judge
from qdqtool.reports.saved.story import Story


def steps(story: Story, files: Files) -> Iterator[Step]:
    """Yield a step for each question without an answer; none where rules found errors, which are mended first."""
    commands: dict[Question, str] = {
        "rules": command("validate", files.model),
        "numbers": files.check(),
        "engine": files.build(),
    }
    judgements = judge(story).judgements
    is_invalid = any(each.question == "rules" and each.state == "failed" for each in judgements)
    for judgement in () if is_invalid else judgements:
        if not judgement.source:
            yield Step(f"No report says: {QUESTIONS[judgement.question][0]}", commands[judgement.question])


ADVICE = Advice(80, steps)
