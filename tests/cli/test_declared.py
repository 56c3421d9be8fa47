"""Options of the command line are those of their declarations; those of preparation mean and refuse what they say."""

from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from qdqtool.cli.commands import quantize
from qdqtool.cli.declared import options_of, values_of
from qdqtool.errors import ArgumentError
from qdqtool.options import FLAG, SWITCH, build, choice, integer, listed, number, option
from qdqtool.quantization.planning.options import Preparation


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


DEFAULTS = {"equalize": True, "smoothquant": "auto", "bias_correction": True, "awq": "auto", "float_layer": True}


def made(**changes: object) -> Preparation:
    return build(Preparation, values_of(Preparation, DEFAULTS | changes))


def test_the_defaults_of_the_command_line_are_those_of_the_library():
    found = {option.name: option.default for option in quantize.command.params if option.name in DEFAULTS}
    assert found == DEFAULTS
    assert made() == Preparation()


def test_every_option_is_carried_over():
    assert made(equalize=False) == Preparation(equalize=False)
    assert made(bias_correction=False) == Preparation(bias_correction=False)
    assert made(awq="off") == Preparation(awq=False)
    assert made(smoothquant="off") == Preparation(smoothquant=None)
    assert made(smoothquant="0.25") == Preparation(smoothquant=0.25)


@pytest.mark.parametrize("text", ["", "on", "1.5", "-1", "nan", "inf"])
def test_an_alpha_that_is_none_is_refused(text):
    with pytest.raises(ArgumentError, match=r"smoothquant is .*; legal: "):
        made(smoothquant=text)


def test_the_values_are_taken_out():
    values = values_of(Preparation, DEFAULTS) | {"target": "tensorrt"}
    build(Preparation, values)
    assert values == {"target": "tensorrt"}
