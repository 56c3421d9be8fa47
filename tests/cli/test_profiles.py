"""``--profile``: the order of the options says which shapes belong to which profile."""

import click
import pytest
from click.testing import CliRunner

from qdqtool.cli.declared import options_of
from qdqtool.cli.profiles import ProfilesCommand, profile_option, profile_values
from qdqtool.cli.sections import Layout
from qdqtool.engines.options import ProfileShapes
from qdqtool.errors import UsageError


def profiles(*words: str):
    """The profiles that a command with these words has."""

    @click.command(cls=ProfilesCommand, layout=Layout(sections={}))
    @click.argument("model")
    @click.option("-o")
    @profile_option()
    @options_of(ProfileShapes)
    @click.pass_context
    def command(ctx: click.Context, /, **_: object) -> None:
        seen.append(profile_values(ctx))

    seen = []
    done = CliRunner().invoke(command, ["m", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return seen[0]


A, B, C = "x:1x3", "x:2x3", "x:4x3"
SHAPES = {A: {"x": (1, 3)}, B: {"x": (2, 3)}, C: {"x": (4, 3)}}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], [{}]),
        (["--opt-shapes", A], [{"opt_shapes": SHAPES[A]}]),
        (
            ["--profile", "0", "--opt-shapes", A, "--profile=1", f"--opt-shapes={B}"],
            [{"opt_shapes": SHAPES[A]}, {"opt_shapes": SHAPES[B]}],
        ),
        (
            ["--opt-shapes", A, "--profile", "1", "--opt-shapes", B],
            [{"opt_shapes": SHAPES[A]}, {"opt_shapes": SHAPES[B]}],
        ),
        (
            ["--profile", "1", "--min-shapes", B, "-o", "e", "--max-shapes", C, "--profile", "0", "--opt-shapes", A],
            [{"opt_shapes": SHAPES[A]}, {"min_shapes": SHAPES[B], "max_shapes": SHAPES[C]}],
        ),
        (
            [
                "--opt-shapes",
                A,
                "--opt-shapes",
                "y:1",
                "--profile",
                "1",
                "--opt-shape-values",
                "n:5",
                "--opt-shapes",
                B,
            ],
            [{"opt_shapes": {**SHAPES[A], "y": (1,)}}, {"opt_shape_values": {"n": (5,)}, "opt_shapes": SHAPES[B]}],
        ),
        (["-o", "--profile", "--opt-shapes", A], [{"opt_shapes": SHAPES[A]}]),
    ],
)
def test_shapes_belong_to_the_profile_in_front_of_them(words, expected):
    found = profiles(*words)
    assert [*found.pop("profiles")] == expected[1:]
    assert found == expected[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--profile", "one", "--opt-shapes", A], "'one' is not a number"),
        (["--profile", "-1", "--opt-shapes", A], "'-1' is not a number"),
        (["--profile", "2", "--opt-shapes", A], "--profile 1 is missing"),
        (["--profile", "1", "--opt-shapes", A, "--profile", "1", "--opt-shapes", B], "--profile 1 is given twice"),
        (["--opt-shapes", A, "--profile", "0", "--opt-shapes", B], "--profile 0 is given twice"),
        (["--opt-shapes", A, "--profile", "1"], "--profile 1 has no shapes"),
        (["--profile", "1", "--opt-shapes", A], "--profile 0 has no shapes"),
    ],
)
def test_profiles_that_cannot_be_counted(words, message):
    with pytest.raises(UsageError, match=message):
        profiles(*words)
