"""The options of ``convert`` are those of its steps."""

import click
import pytest

from qdqtool.cli.commands import _convert_options as options
from qdqtool.cli.commands.convert import command

STEPS = [*options.COMMANDS]
NAMES = {each.name: each for each in command.params if isinstance(each, click.Option)}


@pytest.mark.parametrize("step", STEPS)
def test_every_option_of_a_step_is_taken_over_or_left_out_for_a_reason(step: str):
    """Where this fails for a new option: it collides with another, or stands in LEFT_OUT of a step that lost it."""
    own = {options.name_of(each) for each in options.COMMANDS[step][0].params if isinstance(each, click.Option)}
    left, shared = set(options.LEFT_OUT[step]), set(options.SHARED.get(step, ()))
    taken = {options.name_of(each) for each in options._own(step)}

    assert left - {"help"} <= own
    assert shared <= own
    assert own - left - shared == taken
    assert all(options.LEFT_OUT[step].values())
    assert {options._name(step, each) for each in options._own(step)} <= NAMES.keys()


def test_no_flag_stands_for_two_options():
    flags = [flag for each in command.params for flag in (*each.opts, *each.secondary_opts)]
    assert len(flags) == len(set(flags))
    names = [each.name for each in command.params]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("step", STEPS)
def test_shared_options_are_of_one_kind(step: str):
    """What is given once has to mean the same in both steps: the same flags, type and number of values."""
    first = {each.name: each for each in options.COMMANDS["quantize"][0].params}
    own = {each.name: each for each in options.COMMANDS[step][0].params}
    for name in options.SHARED.get(step, ()):
        mine, others = first[name], own[name]
        assert isinstance(mine, click.Option)
        assert isinstance(others, click.Option)
        assert (mine.opts, type(mine.type), mine.multiple) == (others.opts, type(others.type), others.multiple)


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("--min-sqnr", "min_sqnr"),
        ("--check-min-sqnr", "check_min_sqnr"),
        ("--target", "target"),
        ("--validate-target", "validate_targets"),
        ("--validate-baseline", "validate_baseline"),
        ("--check-profile", "check_profile"),
        ("--profile", "profile"),
        ("--sm", "compute_capabilities"),
    ],
)
def test_names_in_two_steps(flag: str, name: str):
    assert [each.name for each in command.params if flag in each.opts] == [name]


def test_values_go_to_the_steps_under_their_own_names():
    values = {each.name: f"value of {each.name}" for each in command.params}
    check = options.values_of("check", values)

    assert (check["min_sqnr"], check["metric"]) == ("value of check_min_sqnr", "value of metric")
    assert options.values_of("quantize", values)["min_sqnr"] == "value of min_sqnr"
    assert "calib_data" not in options.values_of("build", values)
    assert options.values_of("validate", values)["targets"] == "value of validate_targets"
