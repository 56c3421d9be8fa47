"""Options of the command line are those of their declarations."""

from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from qdqtool.cli.declared import options_of, values_of
from qdqtool.options import FLAG, SWITCH, choice, integer, listed, number, option


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    limit: float | None = option(None, "A limit.", number("DB"), section="S")
    count: int | None = option(None, "A count.", integer(minimum=1), section="S")
    way: str = option("a", "A way.", choice("a", "b"), section="S")
    quick: bool = option(False, "Quickly.", FLAG, section="S")
    even: bool = option(True, "Evenly.", SWITCH, section="S")
    names: tuple[str, ...] = option((), "Names.", listed("NAME"), section="S")


def given(*words: str) -> dict[str, object]:
    found: dict[str, object] = {}

    @click.command
    @options_of(Options)
    def command(**values: object) -> None:
        found.update(values_of(Options, values))

    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output
    return found


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("--limit -1", {"limit": -1.0}),
        ("--limit=-0.5 --count 2", {"limit": -0.5, "count": 2}),
        ("--way b --quick --no-even", {"way": "b", "quick": True, "even": False}),
        ("--names x --names -y", {"names": ("x", "-y")}),
    ],
)
def test_words_become_values(words: str, values: dict[str, object]):
    assert given(*words.split()).items() >= values.items()


def test_what_is_left_out_has_its_default_or_no_value():
    assert given() == {"way": "a", "quick": False, "even": True}
