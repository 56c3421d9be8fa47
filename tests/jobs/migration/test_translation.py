"""The emitted commands: of each option and of real lines, parsed by our own command line."""

import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from qdqtool.cli import command as root
from qdqtool.cli.profiles import profile_values
from qdqtool.engines.tensorrt.deployment import parse_pools
from qdqtool.errors import UsageError
from qdqtool.jobs.migrate import MigratedLine, migrate
from qdqtool.jobs.migration.lines import ToolOption, options_of
from qdqtool.jobs.migration.translation import counterpart

REAL = tomllib.loads(Path(__file__).with_name("real_lines.toml").read_text(encoding="utf-8"))["lines"]
MODELOPT = "python -m modelopt.onnx.quantization --onnx_path m.onnx"
INT8_CACHE = "--quantize-mode int8 --calibration-cache c --high-precision-dtype fp32"
A_AND_B = "--nodes-to-exclude /a --nodes-to-exclude /b"
CONV_AND_GEMM = "--op-types-to-exclude Conv --op-types-to-exclude Gemm"
SCALAR = ("--min-shapes 'b:[]'", "--opt-shapes 'b:[]'")
BEGINNINGS = {
    "trtexec": "trtexec --onnx=m.onnx --fp16 --precisionConstraints=obey",
    "polygraphy": "polygraphy convert m.onnx --fp16 --precision-constraints obey",
    "modelopt": MODELOPT,
}
VALUES = {
    "shapes": "x:1x3x8x8",
    "layers": "a:fp32",
    "io": "fp16",
    "pools": "workspace:64",
    "usual": "none",
    "profile": "1",
    "workspace": "64",
    "quantize --high-precision-dtype": "fp16",
    "convert": "trt",
    "kind": "onnx",
    "build --builder-optimization-level": "3",
    "bench --runs": "7",
    "quantize --input-shapes": "x:1x3x8x8",
    "mode": "int8",
    "method": "max",
}
BESIDE = {
    "cache": "--int8",
    "data": "--int8",
    "layers": "--fp16",
    "profile": "--optShapes=x:1 --profile=0 --optShapes=x:2",
}
"""What an option needs beside it in order to do something."""
EVERY = [(tool, option) for tool in BEGINNINGS for option in options_of(tool) if option.names[0] != "model_file"]


TO_E = "trtexec --onnx=m.onnx --saveEngine=e"
COMMANDS = {
    "trtexec --onnx=m.onnx": ["build m.onnx -o m.engine", "bench m.engine"],
    "trtexec --onnx=m.onnx --skipInference": ["build m.onnx -o m.engine"],
    "trtexec --onnx=-m.onnx --saveEngine=e": ["build ./-m.onnx -o e"],
    f"{TO_E} --dumpLayerInfo": ["build m.onnx -o e", "inspect e"],
    f"{TO_E} --stronglyTyped --fp16": ["build m.onnx -o e"],
    f"{TO_E} --bf16": ["cast m.onnx --to bf16 -o m.bf16.onnx", "build m.bf16.onnx -o e"],
    f"{TO_E} --int8 --calib=c": [
        f"quantize m.onnx {INT8_CACHE} -o m.int8.onnx",
        "build m.int8.onnx -o e",
    ],
    f"{TO_E} --int4": [
        "quantize m.onnx --quantize-mode int4 --high-precision-dtype fp32 -o m.int4.onnx",
        "build m.int4.onnx -o e",
    ],
    f"{TO_E} --int8 --fp16 --calib=c --precisionConstraints=obey --layerPrecisions=/a:fp32,/b:fp16,'/c[0]':int8": [
        f"quantize m.onnx {INT8_CACHE} {A_AND_B} -o m.int8.onnx",
        "cast m.int8.onnx --to fp16 --nodes-to-exclude /a -o m.int8.fp16.onnx",
        "build m.int8.fp16.onnx -o e",
    ],
    f"{TO_E} --fp16 --inputIOFormats=fp16:chw --optShapes=x:1x3": [
        "cast m.onnx --to fp16 --io-types fp16 --input-shapes x:1x3 -o m.fp16.onnx",
        "build m.fp16.onnx -o e --opt-shapes x:1x3",
    ],
    f"{TO_E} --minShapes='a:0':1x3,b:scalar --maxShapes='a:0':4x3": [
        f"build m.onnx -o e --min-shapes a:0:1x3 {SCALAR[0]} --opt-shapes a:0:4x3 {SCALAR[1]} --max-shapes a:0:4x3"
    ],
    f"{TO_E} --profile=0 --optShapes=x:1 --profile=1 --shapes=x:2": [
        "build m.onnx -o e --profile 0 --opt-shapes x:1 --profile 1 --opt-shapes x:2"
    ],
    "trtexec --loadEngine=e --getPlanVersionOnly --fp16": ["verify-engine e"],
    "trtexec --loadEngine=e --iterations=5": ["bench e --runs 5"],
    "tensorrt_rtx --onnx=m.onnx --saveEngine=e --computeCapabilities=75,89": [
        "build m.onnx -o e --backend tensorrt-rtx --compute-capabilities sm75,sm89"
    ],
    "polygraphy convert m.onnx -o e --pool-limit workspace:1e6 tactic_shared_memory:2K": [
        "build m.onnx -o e --mem-pool-size workspace:1000000B --mem-pool-size tacticSharedMem:2K"
    ],
    "polygraphy convert m.onnx --fp-to-fp16 -o h.onnx --save-external-data": [
        "cast m.onnx --to fp16 --external-data always -o h.onnx"
    ],
    f"{MODELOPT} --quantize_mode int4 --calibration_method rtn_dq --op_types_to_exclude Conv Gemm": [
        f"quantize m.onnx --quantize-mode int4 --awq off {CONV_AND_GEMM} -o m.quant.onnx"
    ],
    f"{MODELOPT} --nodes_to_exclude '^/a\\.b/.*$' --calibration_data_path d.npz": [
        "quantize m.onnx --quantize-mode int8 --calib-data d.npz --nodes-to-exclude '/a.b/*' -o m.quant.onnx"
    ],
}


def line_of(words: str) -> MigratedLine:
    (line,) = migrate(words).lines
    return line


def emitted(words: str) -> list[str]:
    return [shlex.join(command).removeprefix("qdqtool ") for command in line_of(words).commands]


def parse(words: Sequence[str]) -> click.Context:
    """Parse a command as the command line does, up to the values of profiles and pools."""
    assert words[0] == "qdqtool"
    found = root.get_command(click.Context(root), words[1])
    assert found is not None, words
    # Without its parent, click keeps another name for --help in the command.
    parent = click.Context(root, **root.context_settings)
    context = found.make_context(words[1], list(words[2:]), parent=parent)
    if words[1] == "build":
        profile_values(context)
        parse_pools(context.params["mem_pool_size"])
    return context


@pytest.mark.parametrize(("tool", "option"), EVERY, ids=lambda each: each if isinstance(each, str) else each.names[0])
def test_the_commands_of_every_option_are_ours(tool: str, option: ToolOption) -> None:
    if option.to == "kind" and tool == "trtexec":
        with pytest.raises(UsageError, match="no ONNX model"):
            migrate(f"trtexec {option.names[0]}=net")
        return
    value = VALUES.get(option.to) or VALUES.get(option.to.partition(" ")[0], "v")
    words = [option.names[0], *([value] if option.arity else [])]
    beside = BESIDE.get(option.to, "") * (tool != "modelopt")
    text = " ".join([*words, beside]) if words[0] not in BEGINNINGS[tool] else ""
    line = line_of(f"{BEGINNINGS[tool]} {text}")
    contexts = [parse(command) for command in line.commands]
    ours = counterpart(option)
    found = next(each for each in line.options if each.given.startswith(words[0]))
    if ours and " -" in found.ours and option.to not in {"usual", "method"}:
        assert any(found.ours.rpartition(" ")[2] in command for command in line.commands), line
    assert contexts


@pytest.mark.parametrize("line", REAL, ids=lambda line: "/".join(line["source"].split("/")[3:]))
def test_real_lines_are_translated(line: dict[str, str | int]) -> None:
    text, code = str(line["line"]), line["exit_code"]
    if code == 2:
        with pytest.raises(UsageError):
            migrate(text)
        return
    report = migrate(text)
    assert report.exit_code == code
    for command in report.lines[0].commands:
        parse(command)


def test_thirty_real_lines_of_trtexec_are_translated() -> None:
    translated = {str(line["line"]) for line in REAL if "trtexec" in str(line["line"]) and line["exit_code"] != 2}
    assert len(translated) >= 30


def test_plugins_are_translated_as_soon_as_build_takes_them() -> None:
    build = root.get_command(click.Context(root), "build")
    assert build is not None
    has_plugins = any("--plugins" in each.opts for each in build.params)
    names = {"--plugins", "--staticPlugins", "--dynamicPlugins", "--setPluginsToSerialize"}
    for option in (each for tool in ("trtexec", "polygraphy") for each in options_of(tool) if names & {*each.names}):
        assert option.to.startswith("build --plugins") == has_plugins, option.names


@pytest.mark.parametrize(("line", "commands"), COMMANDS.items())
def test_the_commands_of_a_line(line: str, commands: list[str]) -> None:
    assert emitted(line) == commands
    for command in line_of(line).commands:
        parse(command)
