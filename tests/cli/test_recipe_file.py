"""Recipes: what is read, what is refused, and the recipe that is printed."""

import json
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from support.json_schemas import schemas

from qdqtool.cli import recipe_file
from qdqtool.cli.commands.convert import command
from qdqtool.errors import UsageError


def read(path: Path, text: str) -> dict[str, object]:
    path.write_text(text)
    context = click.Context(command, info_name="convert")
    recipe_file.read_recipe(context, command.params[0], path)
    assert context.default_map is not None
    return dict(context.default_map)


def written() -> str:
    done = CliRunner().invoke(command, ["--write-recipe"])
    assert done.exit_code == 0
    return done.output


def values(*words: str) -> dict[str, object]:
    """What the command gets."""
    context = command.make_context("convert", ["m.onnx", "-o", "out", *words])
    return dict(context.params)


def test_the_printed_recipe_means_the_same_as_none(tmp_path: Path):
    path = tmp_path / "r.toml"
    path.write_text(written())
    assert values("--recipe", str(path)) == values()


def test_the_printed_recipe_has_every_option_with_its_help():
    text = written()
    keys = {line.removeprefix("# ").split(" = ")[0] for line in text.splitlines() if " = " in line}
    context = click.Context(command)
    for option in recipe_file._options(command):
        assert recipe_file.key_of(option) in keys
        assert recipe_file._help(context, option).split()[0] in text
    assert len(tomllib.loads(text)) > 40


def test_what_is_commented_out_is_legal_with_a_value():
    """Lines with strings can be used as they are; numbers stand in capitals, for the user to fill in."""
    lines = [line.removeprefix("# ") for line in written().splitlines() if line.startswith("# ") and ' = "' in line]
    assert len(lines) > 10
    assert all(isinstance(value, str) for line in lines for value in tomllib.loads(line).values())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sampels = 3", "'sampels' is not an option; did you mean 'samples'?"),
        ("samples = 'x'", 'samples is "x"; expected an integer'),
        ("samples = true", "samples is true; expected an integer"),
        ("samples = 0", "samples: 0 is not in the range x>=1."),
        ("min-cosine = 'x'", 'min-cosine is "x"; expected a number'),
        ("no-build = 1", "no-build is 1; expected true or false"),
        ("equalize = 'no'", 'equalize is "no"; expected true or false'),
        ("target = ['onnx']", 'target is ["onnx"]; expected a string'),
        ("existing = 3", 'existing is 3; expected one of "refuse", "keep", "replace"'),
        ("existing = 'kep'", "existing: 'kep' is not one of"),
        ("nodes-to-exclude = [1]", "nodes-to-exclude is [1]; expected a string or a list of strings"),
        ("[quantize]\nsamples = 3", "'quantize' is not an option"),
        ("[samples]\nn = 3", "samples is a table; expected an integer"),
        ("samples = 3\nseed = x\n", "is not valid TOML: Invalid value (at line 2, column 8)"),
        ("profile = '1'", "profile is allowed on the command line only"),
        ("recipe = 'r.toml'", "recipe is allowed on the command line only"),
        ("output = 'o'", "output is allowed on the command line only"),
        ("report = ['html=p']", "report is allowed on the command line only"),
        ("validate-report = 'sarif=f'", "validate-report is allowed on the command line only"),
        ("verbose_log = 'f'", "verbose_log is allowed on the command line only"),
        ("export-layer-info = 'f'", "export-layer-info is allowed on the command line only"),
        ("timing-cache-file = 'f'", "timing-cache-file is allowed on the command line only"),
        ("ort-custom-ops = ['lib.so']", "ort-custom-ops is allowed on the command line only"),
        ("stand_in = 'f.onnx'", "stand_in is allowed on the command line only"),
        ("plugins = ['evil.so']", "plugins is allowed on the command line only"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, text: str, said: str):
    with pytest.raises(UsageError) as caught:
        read(tmp_path / "r.toml", text)
    assert caught.value.message.startswith(f"recipe {tmp_path / 'r.toml'}")
    assert said in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "line",
    [
        "metric = 'evil.py:score'",
        "calib-data = 'evil.py'",
        "calib-data = 'evil.py:load'",
        "data = 'evil.py'",
        "validation-data = '../evil.py:load'",
    ],
)
def test_no_recipe_executes_code(tmp_path: Path, line: str):
    (tmp_path / "evil.py").write_text("raise SystemExit(99)")
    with pytest.raises(UsageError, match=r"must not run code|is not an option"):
        read(tmp_path / "r.toml", line)


def test_what_executes_code_is_named_on_the_command_line(tmp_path: Path):
    """The hint of the test above."""
    (tmp_path / "r.toml").write_text("samples = 3")
    given = values("--recipe", str(tmp_path / "r.toml"), "--metric", "metric.py:score")
    assert (given["samples"], given["metric"]) == (3, "metric.py:score")


def test_paths_are_relative_to_the_recipe(tmp_path: Path):
    text = "calib-data = 'a/d.npz'\nvalidation-data = '/abs/d.npz'\nmetric = 'top-1'"
    assert read(tmp_path / "r.toml", text) == {
        "calib_data": str(tmp_path / "a/d.npz"),
        "validation_data": "/abs/d.npz",
        "metric": "top-1",
    }


def test_every_file_that_a_recipe_names_is_one_that_convert_reads():
    read_only = {"calib-data", "labels", "tokenizer", "validation-data", "calibration-cache", "locked", "sign"}
    paths = {recipe_file.key_of(each) for each in recipe_file._options(command) if isinstance(each.type, click.Path)}
    assert paths == read_only | {"validate-baseline"}
    assert not [each for each in recipe_file._options(command) if each.metavar == "FORMAT=FILE"]


def test_keys_may_have_underscores_and_options_of_two_steps_their_step(tmp_path: Path):
    found = read(tmp_path / "r.toml", "quantize_mode = 'fp8'\ncheck-min-sqnr = 20\nno-build = true\nequalize = false")
    assert found == {"quantize_mode": "fp8", "check_min_sqnr": 20, "no_build": True, "equalize": False}


def test_a_recipe_that_is_absent(tmp_path: Path):
    context = click.Context(command)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        recipe_file.read_recipe(context, command.params[0], tmp_path / "r.toml")


FITTING = {"samples": 3, "quantize-mode": "fp8", "no-build": True, "nodes-to-exclude": ["a", "b"], "percentile": 99.5}


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampels": 3},
        {"samples": "3"},
        {"samples": 0},
        {"samples": True},
        {"no-build": "yes"},
        {"nodes-to-exclude": [1]},
        {"percentile": "high"},
        {"check-profile": "real"},
        {"output": "out"},
    ],
    ids=str,
)
def test_the_schema_and_the_reader_take_and_refuse_the_same(tmp_path: Path, wrong: dict[str, object]):
    schema = Draft202012Validator(schemas()["recipe-file"])
    for found, fits in ((FITTING, True), ({**FITTING, **wrong}, False)):
        assert schema.is_valid(found) is fits
        text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in found.items())
        if fits:
            read(tmp_path / "r.toml", text)
        else:
            with pytest.raises(UsageError):
                read(tmp_path / "r.toml", text)


def test_the_printed_recipe_fits_the_schema():
    printed = tomllib.loads(written())
    assert len(printed) > 20
    assert not [*Draft202012Validator(schemas()["recipe-file"]).iter_errors(printed)]
