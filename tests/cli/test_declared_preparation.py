"""Options of preparation: what they mean, and what they refuse."""

import pytest
from click.testing import CliRunner

from qdqtool.cli.commands import quantize
from qdqtool.cli.declared import values_of
from qdqtool.errors import ArgumentError
from qdqtool.options import build
from qdqtool.quantization.planning.options import Preparation

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


def test_help_says_how_to_switch_each_off():
    text = CliRunner().invoke(quantize.command, ["--help"]).output
    assert all(
        option in text for option in ("--no-equalize", "--no-bias-correction", "auto|off|ALPHA", "--awq [auto|off]")
    )
