"""The models of a page, each with its verdict and a name that distinguishes it from the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from qdqtool.jobs.check_models_report import count_verdicts
from qdqtool.jobs.verdict import word_of
from qdqtool.reports.page.verdict import Verdict, judge
from qdqtool.reports.saved.identity import DIGITS
from qdqtool.reports.saved.story import Story

_LETTERS = "AB"
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class JudgedModel:
    """One model.

    Attributes:
        letter: ``A`` or ``B`` of two models that are compared; else empty.
        name: Its file, with as many folders as are needed to distinguish the models.
        story: Its reports.
        verdict: The verdict on the model.
    """

    letter: str
    name: str
    story: Story
    verdict: Verdict

    @property
    def label(self) -> str:
        """The letter and the name."""
        return f"{self.letter}: {self.name}" if self.letter else self.name


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models that are compared."""

    a: JudgedModel
    b: JudgedModel

    @property
    def stories(self) -> tuple[Story, Story]:
        """The reports of each model."""
        return self.a.story, self.b.story

    def each(self, read: Callable[[Story], Found]) -> tuple[Found, Found]:
        """Apply a function to the reports of each model, and return both results."""
        return read(self.a.story), read(self.b.story)


def judged(stories: Sequence[Story]) -> tuple[JudgedModel, ...]:
    """Return the models of a page with their verdicts."""
    is_listed = any(report.listed_in for story in stories for report in story.reports)
    letters = _LETTERS if len(stories) > 1 and not is_listed else [""] * len(stories)
    return tuple(
        JudgedModel(letter, name, story, judge(story))
        for letter, name, story in zip(letters, _names(stories), stories, strict=True)
    )


def judge_all(models: Sequence[JudgedModel]) -> Verdict:
    """Return the verdict on models that a settings file lists, which is the worst of their verdicts."""
    settings = ", ".join(dict.fromkeys(report.listed_in for model in models for report in model.story.reports))
    judgements = tuple(judgement for model in models for judgement in model.verdict.judgements)
    words = [model.verdict.overall for model in models]
    return Verdict(word_of(judgements), count_verdicts(words, settings), judgements)


def _names(stories: Sequence[Story]) -> tuple[str, ...]:
    """Return the shortest ends of the model paths that distinguish the models."""
    # If the paths are equal, such as those of two runs of a CI job, the file of a report or the digest is added.
    paths = [story.quantized_model or story.float_model or "a model" for story in stories]
    found = _distinct_ends(paths)
    if found is not None:
        return found
    names = [path.replace("\\", "/").rpartition("/")[2] for path in paths]
    sources = _distinct_ends([story.reports[0].source if story.reports else "" for story in stories])
    marks = sources or [_digest(story) for story in stories]
    return tuple(f"{name} [{mark}]" if mark else name for name, mark in zip(names, marks, strict=True))


def _distinct_ends(paths: Sequence[str]) -> tuple[str, ...] | None:
    """Return the shortest ends of the paths that all differ, or None if two paths are equal."""
    parts = [path.replace("\\", "/").split("/") for path in paths]
    for count in range(1, max(map(len, parts)) + 1):
        names = tuple("/".join(each[-count:]) for each in parts)
        if len(set(names)) == len(names):
            return names
    return None


def _digest(story: Story) -> str:
    file = story.quantized.file if story.quantized is not None else None
    return f"{file.sha256[:DIGITS]}…" if file is not None else ""
