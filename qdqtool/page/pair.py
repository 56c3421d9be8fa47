"""The models of a page, each with its verdict and a name that tells it from the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from qdqtool.page.identity import DIGITS
from qdqtool.page.story import Story
from qdqtool.page.verdict import Verdict, judge

_LETTERS = "AB"
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class JudgedModel:
    """One model.

    Attributes:
        letter: ``A`` or ``B``; empty where the page shows one model.
        name: Its file, with as many folders as tell it from the other.
        story: What is known of it.
        verdict: What that means.
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
    """Two models that are compared.

    Attributes:
        a: The first one.
        b: The one that it is compared with.
    """

    a: JudgedModel
    b: JudgedModel

    @property
    def stories(self) -> tuple[Story, Story]:
        """What is known of each."""
        return self.a.story, self.b.story

    def each(self, read: Callable[[Story], Found]) -> tuple[Found, Found]:
        """Return what a function finds in the story of each model."""
        return read(self.a.story), read(self.b.story)


def judged(stories: Sequence[Story]) -> tuple[JudgedModel, ...]:
    """Return the models of a page with their verdicts.

    Args:
        stories: One or two.
    """
    letters = _LETTERS if len(stories) > 1 else ("",)
    return tuple(
        JudgedModel(letter, name, story, judge(story))
        for letter, name, story in zip(letters, _names(stories), stories, strict=True)
    )


def _names(stories: Sequence[Story]) -> tuple[str, ...]:
    """Return the shortest ends of the paths that differ; digests too, where the paths are equal."""
    paths = [
        (story.quantized_model or story.float_model or "a model").replace("\\", "/").split("/") for story in stories
    ]
    for count in range(1, max(map(len, paths)) + 1):
        names = tuple("/".join(path[-count:]) for path in paths)
        if len(set(names)) == len(names):
            return names
    return tuple(f"{path[-1]}{_digest(story)}" for path, story in zip(paths, stories, strict=True))


def _digest(story: Story) -> str:
    file = story.quantized.file if story.quantized is not None else None
    return f" ({file.sha256[:DIGITS]}…)" if file is not None else ""
