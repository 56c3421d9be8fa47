"""The options of ``convert`` are those of its steps."""

import click
import pytest

from qdqtool.cli.commands.convert import command
from qdqtool.jobs.conversion import union
from qdqtool.options import declared

STEPS = [*union.STEPS]
NAMES = {each.name: each for each in command.params if isinstance(each, click.Option)}


@pytest.mark.parametrize("step", STEPS)
def test_every_option_of_a_step_is_taken_over_or_left_out_for_a_reason(step: str):
    """Where this fails for a new option: it collides with another, or stands in LEFT_OUT of a step that lost it."""
    own = {each.name for each in declared(union.STEPS[step])}
    left, shared = set(union.LEFT_OUT[step]), set(union._SHARED.get(step, ()))
    taken = {name: each for (owner, name), each in union.step_options().items() if owner == step}

    assert left <= own
    assert shared <= own
    assert own - left - shared == taken.keys()
    assert all(union.LEFT_OUT[step].values())
    assert {each.name for each in taken.values() if each.only != "python"} <= NAMES.keys()


def test_no_flag_stands_for_two_options():
    flags = [flag for each in command.params for flag in (*each.opts, *each.secondary_opts)]
    assert len(flags) == len(set(flags))
    names = [each.name for each in command.params]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("step", STEPS)
def test_shared_options_are_of_one_kind(step: str):
    """What is given once has to mean the same in both steps: the same flags and the same values."""
    first = {each.name: each for each in declared(union.STEPS["quantize"])}
    own = {each.name: each for each in declared(union.STEPS[step])}
    for name in union._SHARED.get(step, ()):
        assert (first[name].flags, first[name].kind) == (own[name].flags, own[name].kind)


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
    values = {str(each.name): f"value of {each.name}" for each in command.params}
    found = union.split(values)

    assert (found["check"]["min_sqnr"], found["check"]["metric"]) == ("value of check_min_sqnr", "value of metric")
    assert found["quantize"]["min_sqnr"] == "value of min_sqnr"
    assert "calib_data" not in found["build"]
    assert found["validate"]["targets"] == "value of validate_targets"
