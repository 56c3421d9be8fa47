"""Keywords have the names of the command line, and give the options that the command line gives."""

import os
import typing
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from numpy._core import _multiarray_umath

import qdqtool
from qdqtool.api import keywords
from qdqtool.cli import command as program
from qdqtool.cli.commands.build import command as build
from qdqtool.cli.commands.calibrate import command as calibrate
from qdqtool.cli.commands.check import command as check
from qdqtool.cli.commands.convert import command as convert
from qdqtool.cli.commands.insert import command as insert
from qdqtool.cli.commands.quantize import command as quantize
from qdqtool.cli.commands.sensitivity import command as sensitivity
from qdqtool.errors import ArgumentError
from qdqtool.samples.options import MEDIA
from qdqtool.samples.request import RandomData

LIBRARY = _multiarray_umath.__file__
"""A shared library that every machine with the tests has."""
OTHERWISE = {"model", "output_format", "quiet", "verbose", "help", "help_all", "strict"}
"""Parameters of commands that are no options of a function: the model, and how a report is printed."""
ARGUMENTS = {
    "calibrate": (calibrate, keywords.CalibrateKeywords, {"output", "calib_data", "shard"}),
    "quantize": (quantize, keywords.QuantizeKeywords, {"output", "calib_data", "list_matches"}),
    "sensitivity": (sensitivity, keywords.SensitivityKeywords, {"calib_data"}),
    "check": (check, keywords.CheckKeywords, {"baseline", "data", "config"}),
    "insert": (insert, keywords.InsertKeywords, {"output", "plan", "encodings"}),
    "build": (build, keywords.BuildKeywords, {"output", "backend", "profile"}),
    "convert": (
        convert,
        keywords.ConvertKeywords,
        {"output", "calib_data", "profile", "recipe", "write_recipe", "isolated", "validate_reports"},
    ),
}
"""For each command its keywords, and the parameters that are arguments of the function, or another function."""


def words_of(hint: Any) -> set[str]:
    """The words that a Literal allows, also beside None."""
    members = typing.get_args(hint)
    literals = [member for member in members if typing.get_origin(member) is typing.Literal] or [hint]
    return {word for literal in literals for word in typing.get_args(literal)}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_keywords_are_the_options_of_the_command(name: str):
    command, kind, arguments = ARGUMENTS[name]
    options = {parameter.name: parameter for parameter in command.params if parameter.name not in OTHERWISE}
    hints = typing.get_type_hints(kind)
    of_python = {"profiles"} if name in {"build", "convert"} else {"calibration_cache", "force"} - set(options)
    assert (set(hints) - of_python) | arguments == set(options)
    assert not set(hints) & arguments
    for option, parameter in options.items():
        if isinstance(parameter.type, click.Choice) and option in hints and option != "smoothquant":
            assert words_of(hints[option]) == set(parameter.type.choices), option
        if isinstance(parameter, click.Option) and parameter.is_flag and option in hints:
            assert hints[option] in {bool, bool | None}, option


CASES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "quantize": (
        [
            "--samples=3", "--allow-constant-data", "--calibration-cache=r.json", "--force", "--validation-data=v.npz",
            "--quantize-mode=fp8", "--calibration-method=percentile", "--percentile=99", "--target=tensorrt-rtx",
            "--nodes-to-quantize=a*", "--nodes-to-quantize=c", "--nodes-to-exclude=b", "--op-types-to-quantize=Conv",
            "--op-types-to-exclude=Add", "--existing=keep", "--input-shapes=x:1x3", "--input-values=sr:16000",
            "--no-equalize", "--no-bias-correction", "--smoothquant=0.5", "--awq=off", "--no-float-layer",
            "--high-precision-dtype=fp16", "--weights=qdq", "--external-data=always", "--save-ranges=s.json",
            "--save-plan=p.json", "--min-sqnr=30", "--metric=top-1", "--max-metric-loss=2", "--fallback=int8",
            "--pareto=c.json", "--partial", "--sensitivity=n.json", "--sm=8.9",
            "--plugin-ops=a::B=same-as-input-0", "--plugin-ops=::C",
        ],
        {
            "samples": 3, "allow_constant_data": True, "calibration_cache": "r.json", "force": True,
            "compute_capabilities": ["8.9"],
            "validation_data": "v.npz", "quantize_mode": "fp8", "calibration_method": "percentile", "percentile": 99,
            "target": "tensorrt-rtx", "nodes_to_quantize": ("a*", "c"), "nodes_to_exclude": ["b"],
            "op_types_to_quantize": ["Conv"], "op_types_to_exclude": ["Add"], "existing": "keep",
            "input_shapes": {"x": [1, 3]}, "input_values": {"sr": 16000}, "equalize": False, "bias_correction": False,
            "smoothquant": np.float32(0.5), "awq": "off", "float_layer": False, "high_precision_dtype": "fp16",
            "weights": "qdq", "external_data": "always", "save_ranges": Path("s.json"), "save_plan": "p.json",
            "min_sqnr": 30, "metric": "top-1", "max_metric_loss": np.float64(2), "fallback": "int8",
            "pareto": "c.json", "partial": True, "sensitivity": "n.json",
            "plugin_ops": ["a::B=same-as-input-0", "::C"],
        },
    ),
    "check": (
        [
            "--allow-constant-data", "--seed=4", "--samples=2", "--input-shapes=x:1x3", "--input-values=sr:[16000,2]",
            "--outputs=o.npz", "--save-outputs=s.npz", "--metric=top-1", "--profile=deployed", "--min-sqnr=1",
            "--min-cosine=0.5", "--min-agreement=0.6", "--max-steps=3", "--max-weight-steps=inf", "--max-metric-loss=9",
            "--plugin-ops=a::B",
        ],
        {
            "allow_constant_data": True, "seed": 4, "samples": np.int64(2), "input_shapes": {"x": (1, 3)},
            "input_values": {"sr": [16000, 2]}, "outputs": "o.npz", "save_outputs": "s.npz", "metric": "top-1",
            "profile": "deployed", "min_sqnr": 1, "min_cosine": 0.5, "min_agreement": 0.6, "max_steps": 3,
            "max_weight_steps": float("inf"), "max_metric_loss": 9, "plugin_ops": ["a::B"],
        },
    ),
    "insert": (
        ["--target=tensorrt,onnx", "--weights=qdq", "--external-data=never", "--verify", "--input-shapes=x:1x3",
         "--force"],
        {
            "targets": ["tensorrt", "onnx"], "weights": "qdq", "external_data": "never", "verify": True,
            "input_shapes": {"x": (1, 3)}, "force": True,
        },
    ),
    "build": (
        [
            "--min-shapes=x:1x3", "--opt-shapes=x:2x3", "--max-shapes=x:3x3", "--min-shape-values=n:1x2",
            "--opt-shape-values=n:1x3", "--max-shape-values=n:1x4", "--input-shapes=y:2", "--input-values=sr:16000",
            "--calib-data=d.npz", "--compute-capabilities=8.9,sm86", "--builder-optimization-level=2",
            "--mem-pool-size=workspace:1G", "--timing-cache-file=t", "--error-on-timing-cache-miss", "--refit",
            "--strip-weights", "--version-compatible", "--exclude-lean-runtime", "--weight-streaming",
            "--require-precision=int8>=95%", "--locked=l.json", "--sign=k", "--export-layer-info=i", "--verbose-log=v",
            "--skip-validate", "--timeout=7", "--plugin-ops=a::B", f"--plugins={LIBRARY}",
        ],
        {
            "min_shapes": {"x": (1, 3)}, "opt_shapes": {"x": (2, 3)}, "max_shapes": {"x": (3, 3)},
            "min_shape_values": {"n": (1, 2)}, "opt_shape_values": {"n": (1, 3)}, "max_shape_values": {"n": (1, 4)},
            "input_shapes": {"y": [2]}, "input_values": {"sr": 16000.0}, "calib_data": "d.npz",
            "compute_capabilities": ["8.9", "sm86"], "builder_optimization_level": 2,
            "mem_pool_size": {"workspace": 1 << 30}, "timing_cache_file": "t", "error_on_timing_cache_miss": True,
            "refit": True, "strip_weights": True, "version_compatible": True, "exclude_lean_runtime": True,
            "weight_streaming": True, "require_precision": ["int8>=95%"], "locked": "l.json", "sign": "k",
            "export_layer_info": "i", "verbose_log": "v", "skip_validate": True, "timeout": 7,
            "plugin_ops": ["a::B"], "plugins": [LIBRARY],
        },
    ),
}  # fmt: skip
_NOT_CONVERT = {
    "quantize": {"partial", "save_ranges", "save_plan"},
    "build": {"input_shapes", "input_values", "calib_data", "skip_validate", "plugin_ops"},
}


def _for_convert(name: str) -> tuple[list[str], dict[str, Any]]:
    """The options and keywords of a command that ``convert`` has under the same names."""
    words, values = CASES[name]
    left = {f"--{each.replace('_', '-')}" for each in _NOT_CONVERT[name]}
    return [word for word in words if word.partition("=")[0] not in left], {
        key: value for key, value in values.items() if key not in _NOT_CONVERT[name]
    }


CASES["convert"] = (
    [
        *_for_convert("quantize")[0],
        *_for_convert("build")[0],
        *("--backend=tensorrt", "--build-skip-validate", "--validate-target=onnx", "--validate-baseline=b.json"),
        *("--select=QS", "--extend-select=QP1", "--ignore=QT,QN", "--fail-on=never", "--no-parser", "--save-outputs=s"),
        *("--check-min-sqnr=20", "--min-cosine=0.5", "--min-agreement=0.6", "--max-steps=3", "--max-weight-steps=4"),
        *("--check-max-metric-loss=5", "--check-profile=deployed", "--blame"),
    ],
    {
        **_for_convert("quantize")[1],
        **_for_convert("build")[1],
        "backend": "tensorrt",
        "build_skip_validate": True,
        "validate_targets": ["onnx"],
        "validate_baseline": "b.json",
        "select": ["QS"],
        "extend_select": ("QP1",),
        "ignore": ["QT", "QN"],
        "fail_on": "never",
        "parser": False,
        "save_outputs": "s",
        "check_min_sqnr": 20,
        "min_cosine": 0.5,
        "min_agreement": 0.6,
        "max_steps": 3,
        "max_weight_steps": 4,
        "check_max_metric_loss": 5,
        "check_profile": "deployed",
        "blame": True,
    },
)
JOBS = {
    "quantize": ("quantize_model", "qdqtool.jobs.quantize.quantize_model", ["--calib-data=d.npz", "--output=o.onnx"]),
    "check": ("check_model", "qdqtool.jobs.check.check_model", ["--data=d.npz"]),
    "insert": ("insert_plan", "qdqtool.jobs.insert.insert_plan", ["--plan=p.toml", "--output=o.onnx"]),
    "build": ("build_engine", "qdqtool.jobs.build.build_engine", ["--output=o.engine"]),
    "convert": ("convert", "qdqtool.jobs.conversion.convert.convert", ["--calib-data=d.npz", "--output=out"]),
    "calibrate": (
        "calibrate_to_file",
        "qdqtool.jobs.calibrate.calibrate_to_file",
        ["--calib-data=d.npz", "--output=r.json"],
    ),
    "sensitivity": (
        "measure_sensitivity",
        "qdqtool.jobs.sensitivity.measure_sensitivity",
        ["--calib-data=d.npz", "--output=n.json"],
    ),
}
POSITIONAL: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "quantize": (("d.npz", "o.onnx"), {}),
    "check": ((), {"data": "d.npz"}),
    "insert": (("p.toml", "o.onnx"), {}),
    "build": (("o.engine",), {}),
    "convert": (("d.npz", "out"), {}),
    "calibrate": (("d.npz", "r.json"), {}),
    "sensitivity": (("d.npz",), {"output": "n.json"}),
}


OWN: dict[str, tuple[list[str], dict[str, Any]]] = {
    "calibrate": (
        ["--dask=tcp://10.0.0.5:8786", "--all-tensors"],
        {"dask": "tcp://10.0.0.5:8786", "all_tensors": True},
    ),
}
"""What a command has beside options of ``quantize``."""


class StopError(Exception):
    """What the job was called with."""


def caught(monkeypatch: pytest.MonkeyPatch, job: str, call: Any) -> list[Any]:
    """The options and the data that a job is called with; callables, which show progress, are left out."""

    def stop(*arguments: Any, **named: Any) -> None:
        raise StopError((*arguments, *named.values()))

    monkeypatch.setattr(job, stop)
    with pytest.raises(StopError) as stopped:
        call()
    found = [each for each in stopped.value.args[0] if not callable(each) and each is not None]
    return [Path(each) if isinstance(each, str | os.PathLike) else each for each in found]


def from_command_line(name: str, words: list[str]) -> None:
    CliRunner().invoke(program, [name, "m.onnx", *words], catch_exceptions=False)


def of_options(found: list[Any]) -> list[Any]:
    """Without what one of the two passes only because it has progress to show, or a backend by default."""
    return [
        each
        for each in found
        if type(each).__name__ not in {"BlameRequest", "ConvertProgress"} and each != Path("auto")
    ]


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("given", [False, True], ids=["defaults", "all"])
def test_every_keyword_gives_what_the_option_gives(monkeypatch: pytest.MonkeyPatch, name: str, given: bool):
    function, job, words = JOBS[name]
    recipe = {
        key: value for key, value in CASES["quantize"][1].items() if key in keywords.CalibrateKeywords.__annotations__
    }
    shared = [
        word
        for word in CASES["quantize"][0]
        if word.split("=")[0].removeprefix("--no-").strip("-").replace("-", "_") in recipe
    ]
    own_words, own = OWN.get(name, ([], {}))
    options, more = (CASES.get(name) or ([*shared, *own_words], recipe | own)) if given else ([], {})
    if given:
        missing = set(typing.get_type_hints(ARGUMENTS[name][1])) - set(more)
        # tests/api/test_media.py has those of images, sound and text, tests/api/test_reports.py has reports
        of_others = {
            "block_size",
            "random_calibration",
            "seed",
            "metric",
            "output",
            "engine",
            "no_build",
            "reports",
            "profiles",
        }
        # tests/acceptance/test_custom_operators.py has those of operators, which no job gets
        of_others |= {"blame", "calibration_cache", "force", "ort_custom_ops", "stand_in"}
        # Only a library with a certain function can be stored: tests/engines/tensorrt/test_deployment.py.
        of_others |= {"serialize_plugins"}
        assert missing <= {*of_others, *MEDIA}
    positional, named = POSITIONAL[name]
    by_words = caught(monkeypatch, job, lambda: from_command_line(name, [*words, *options]))
    by_keywords = caught(monkeypatch, job, lambda: getattr(qdqtool, function)("m.onnx", *positional, **named, **more))
    assert of_options(by_keywords) == of_options(by_words)
    assert len(by_keywords) >= 2


@pytest.mark.parametrize(
    ("name", "words", "more"),
    [
        ("quantize", ["--quantize-mode=int4", "--block-size=64"], {"quantize_mode": "int4", "block_size": 64}),
        ("quantize", ["--smoothquant=off"], {"smoothquant": "off"}),
        ("sensitivity", ["--metric=top-1"], {"metric": "top-1"}),
        ("check", ["--engine=e"], {"engine": "e"}),
    ],
    ids=["block-size", "smoothquant", "metric", "engine"],
)
def test_other_values_too(monkeypatch: pytest.MonkeyPatch, name: str, words: list[str], more: dict[str, Any]):
    function, job, first = JOBS[name]
    positional, named = POSITIONAL[name]
    monkeypatch.setattr("qdqtool.engines.gpu.requirements.require_gpu", lambda: None)
    by_words = caught(monkeypatch, job, lambda: from_command_line(name, [*first, *words]))
    by_keywords = caught(monkeypatch, job, lambda: getattr(qdqtool, function)("m.onnx", *positional, **named, **more))
    assert of_options(by_keywords) == of_options(by_words)


def test_random_data_is_requested_in_both(monkeypatch: pytest.MonkeyPatch):
    words = ["--output=o.onnx", "--random-calibration", "--seed=7", "--samples=5"]
    by_words = caught(monkeypatch, JOBS["quantize"][1], lambda: from_command_line("quantize", words))
    by_keywords = caught(
        monkeypatch,
        JOBS["quantize"][1],
        lambda: qdqtool.quantize_model("m.onnx", None, "o.onnx", random_calibration=True, seed=7, samples=5),
    )
    assert by_keywords == by_words
    assert by_keywords[1] == RandomData(seed=7, samples=5)


def test_none_is_as_if_a_keyword_was_left_out(monkeypatch: pytest.MonkeyPatch):
    nothing = dict.fromkeys(typing.get_type_hints(keywords.QuantizeKeywords))
    job = JOBS["quantize"][1]
    bare = caught(monkeypatch, job, lambda: qdqtool.quantize_model("m.onnx", "d.npz", "o.onnx"))
    assert caught(monkeypatch, job, lambda: qdqtool.quantize_model("m.onnx", "d.npz", "o.onnx", **nothing)) == bare


WRONG = {
    "quantise_mode": ("fp8", r"quantize_model\(\) has no option 'quantise_mode'; did you mean 'quantize_mode'\?"),
    "min_sqnr": ("30", "min_sqnr is '30'; it must be a number, not str"),
    "samples": (2.5, "samples is 2.5; it must be int, not a number"),
    "equalize": (1, "equalize is 1; it must be bool, not int"),
    "nodes_to_exclude": ("*head*", r"nodes_to_exclude is '\*head\*'; it must be a list, such as \['\*head\*'\]"),
    "existing": ("kep", "existing is 'kep'; legal: 'refuse', 'keep', 'replace'; did you mean 'keep'?"),
    "smoothquant": ("on", "smoothquant is 'on'; legal: a number, 'auto', 'off'"),
    "input_shapes": ({"x": 3}, "input_shapes is {'x': 3}; it must be a list, not int"),
    "save_plan": (3, "save_plan is 3; it must be a path"),
    "metric": (3, "metric is 3; it must be the name of a metric, or a function"),
    "validation_data": (3, "data is of type int; legal: a path, an array"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_keyword_is_told_before_anything_is_read(name: str):
    value, message = WRONG[name]
    with pytest.raises(ArgumentError, match=message) as told:
        qdqtool.quantize_model("missing.onnx", "missing.npz", **{name: value})
    assert "\n" not in told.value.message


def test_further_profiles_are_a_list_of_shapes(monkeypatch: pytest.MonkeyPatch):
    words = ["--output=o.engine", "--opt-shapes=x:1x3", "--profile=1", "--min-shapes=x:2x3", "--max-shapes=x:4x3"]
    more = {"opt_shapes": {"x": [1, 3]}, "profiles": [{"min_shapes": {"x": [2, 3]}, "max_shapes": {"x": (4, 3)}}]}
    by_words = caught(monkeypatch, JOBS["build"][1], lambda: from_command_line("build", words))
    by_keywords = caught(monkeypatch, JOBS["build"][1], lambda: qdqtool.build_engine("m.onnx", "o.engine", **more))
    assert of_options(by_keywords) == of_options(by_words)
    with pytest.raises(ArgumentError, match="profiles has no shapes 'opt_shape'; did you mean 'opt_shapes'"):
        qdqtool.build_engine("m.onnx", "o.engine", profiles=[{"opt_shape": {"x": [1, 3]}}])


def test_libraries_are_a_list_of_paths():
    for wrong in (LIBRARY, 7):
        with pytest.raises(ArgumentError, match="it must be a list of paths"):
            qdqtool.build_engine("m.onnx", "e.engine", plugins=wrong)
    with pytest.raises(ArgumentError, match="plugins is 7; it must be a path"):
        qdqtool.build_engine("m.onnx", "e.engine", plugins=[LIBRARY, 7])
