"""The command that reduces a refused model has the options of the build."""

import shlex
from pathlib import Path

import pytest

from qdqtool.cli.commands.build import command as build
from qdqtool.cli.commands.reduce import command as reduce
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.parser_answer import reduce_command
from qdqtool.engines.build.precision_gate import PrecisionGate
from qdqtool.engines.build.profiles import ShapeOptions
from qdqtool.engines.tensorrt.deployment import DeploymentOptions
from qdqtool.engines.tensorrt.shape_values import ShapeValues
from qdqtool.samples.request import FileData

RTX = "qdqtool reduce m.onnx --fails build -o small.onnx{} -- --backend tensorrt-rtx{}"
CASES = {
    "none": (BuildOptions(), "", ""),
    "gate skipped": (BuildOptions(skip_validate=True), "", " --skip-validate"),
    "deployment": (
        BuildOptions(
            deployment=DeploymentOptions(refit=True, builder_optimization_level=2, mem_pool_size={"workspace": 1024})
        ),
        "",
        " --refit --builder-optimization-level 2 --mem-pool-size workspace:1024B",
    ),
    "targets": (BuildOptions(compute_capabilities=("8.6", "8.9")), "", " --compute-capabilities 8.6,8.9"),
    "fixed shapes": (
        BuildOptions(shapes=ShapeOptions(fixed={"x": (1, 3), "y": ()})),
        " --input-shapes 'x:1x3,y:[]'",
        "",
    ),
    "a range": (
        BuildOptions(shapes=ShapeOptions(min={"x": (1, 3)}, opt={"x": (2, 3)}, max={"x": (4, 3)})),
        "",
        " --min-shapes x:1x3 --opt-shapes x:2x3 --max-shapes x:4x3",
    ),
    "values": (
        BuildOptions(input_values={"sr": (16000,)}, shape_values=ShapeValues(opt={"size": (2, 4), "k": (3,)})),
        "",
        " --input-values sr:16000 --opt-shape-values 'size:[2,4]' --opt-shape-values k:3",
    ),
    "data": (BuildOptions(calib_data=FileData(path=Path("my data.npz"))), "", " --calib-data 'my data.npz'"),
    "less time": (BuildOptions(timeout=60.5), " --timeout 60.5", ""),
    "what changes no refusal": (
        BuildOptions(require_precision=(PrecisionGate("int8", 95),), layer_info=Path("l"), verbose_log=Path("v")),
        "",
        "",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_options_of_the_build_follow(case: str):
    options, before, behind = CASES[case]
    assert reduce_command(Path("m.onnx"), "tensorrt-rtx", options) == RTX.format(before, behind)


@pytest.mark.parametrize("case", CASES)
def test_both_commands_take_the_options(case: str):
    words = shlex.split(reduce_command(Path(__file__), "tensorrt-rtx", CASES[case][0]))
    end = words.index("--")
    data = [Path(__file__).name if word == "my data.npz" else word for word in words[end + 1 :]]
    with reduce.make_context("reduce", words[2:end], resilient_parsing=False) as context:
        assert context.params["fails"] == "build"
    options = [str(Path(__file__)) if word == Path(__file__).name else word for word in data]
    with build.make_context("build", [__file__, "-o", "e", *options]) as context:
        assert context.params["backend"] == "tensorrt-rtx"


def test_a_path_with_a_space_can_be_pasted():
    assert shlex.split(reduce_command(Path("a b.onnx"), "tensorrt", BuildOptions()))[2] == "a b.onnx"
