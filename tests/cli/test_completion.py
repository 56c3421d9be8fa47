"""What the shell is offered, through click's protocol, and in a real bash."""

import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from support.command import qdqtool
from support.paths import ROOT
from support.small import conv_model

from qdqtool.cli import command
from qdqtool.cli.completion import offer
from qdqtool.jobs import pages
from qdqtool.linting import rules
from qdqtool.models import targets
from qdqtool.reports.schemas import schema_names

HOSTILE = "evil\nplain,injected\x1b[31m"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model, one with hostile names, and files that are none."""
    onnx.save(conv_model(), tmp_path / "m.onnx")
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    nodes = [helper.make_node("Relu", ["x"], ["h"], name=HOSTILE), helper.make_node("Abs", ["h"], ["y"])]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [value], [result])), tmp_path / "hostile.onnx")
    (tmp_path / "text.onnx").write_text("no model")
    (tmp_path / "empty.onnx").touch()
    return tmp_path


def offered(folder: Path, line: str) -> list[str]:
    """The words that bash is offered for the last word of a line; stderr has to stay empty."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    asked = {"_QDQTOOL_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = qdqtool(cwd=folder, **asked)
    assert done.err == ""
    lines = done.out.strip().splitlines()
    assert all(each.partition(",")[0] in {"plain", "file", "dir"} for each in lines)
    return [each.partition(",")[2] for each in lines if each.startswith("plain,")]


def test_commands_and_options(folder: Path):
    assert offered(folder, "qdqtool ") == command.list_commands(None)
    assert "--nodes-to-exclude" in offered(folder, "qdqtool quantize m.onnx --nodes")
    assert offered(folder, "qdqtool check m.onnx --profile ") == ["semantic", "deployed"]
    assert offered(folder, "qdqtool validate m.onnx --output-format s") == ["sarif"]


def test_rules_pages_and_schemas(folder: Path):
    codes = sorted(rule.code for rule in rules.catalogue())
    assert offered(folder, "qdqtool explain ") == sorted([*codes, *pages.topics()])
    assert offered(folder, "qdqtool validate m.onnx --select QS00") == [code for code in codes if code[:4] == "QS00"]
    assert offered(folder, "qdqtool validate m.onnx --ignore QP101,QM60") == [
        f"QP101,{code}" for code in codes if code[:4] == "QM60"
    ]
    assert offered(folder, "qdqtool schema ") == list(schema_names())


def test_targets_modes_methods_and_metrics(folder: Path):
    assert offered(folder, "qdqtool quantize m.onnx --target ") == sorted(targets.names())
    releases = [name for name in targets.releases("tensorrt") if name.startswith("tensorrt-10.1")]
    assert offered(folder, "qdqtool validate m.onnx --target onnx,tensorrt-10.1") == sorted(
        f"onnx,{name}" for name in releases
    )
    assert offered(folder, "qdqtool quantize m.onnx --quantize-mode fp8") == ["fp8", "fp8-weight-only"]
    assert offered(folder, "qdqtool quantize m.onnx --calibration-method m") == ["max", "mse"]
    assert offered(folder, "qdqtool check m.onnx --metric t") == ["top-1"]


@pytest.mark.parametrize("before", ["", "-o - ", "-o q.onnx --samples 3 "])
def test_nodes_and_operators_of_the_model_on_the_line(folder: Path, before: str):
    nodes = conv_model().graph.node
    names = sorted(node.name or node.output[0] for node in nodes)
    assert names
    assert offered(folder, f"qdqtool quantize {before}m.onnx --nodes-to-exclude ") == names
    assert offered(folder, f"qdqtool quantize {before}m.onnx --op-types-to-quantize ") == sorted(
        {node.op_type for node in nodes}
    )


@pytest.fixture
def two_inputs(folder: Path) -> Path:
    """The folder, with a model of two inputs and one constant that is declared as an input too."""
    names = {"image": TensorProto.FLOAT, "sizes": TensorProto.INT64, "im_weight": TensorProto.FLOAT}
    inputs = [helper.make_tensor_value_info(name, kind, [2]) for name, kind in names.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    weight = helper.make_tensor("im_weight", TensorProto.FLOAT, [2], [1.0, 2.0])
    node = helper.make_node("Add", ["image", "im_weight"], ["y"])
    onnx.save(helper.make_model(helper.make_graph([node], "g", inputs, [result], [weight])), folder / "two.onnx")
    return folder


SAMPLED = ("convert", "quantize", "check", "calibrate", "sensitivity")
TAKES_SHAPES = (*SAMPLED, "build", "insert", "normalize", "reduce", "validate")


@pytest.mark.parametrize(
    "line",
    [
        *(f"{name} two.onnx --input-shapes" for name in TAKES_SHAPES),
        *(f"{name} two.onnx --input-values" for name in ("check", "quantize", "build")),
        "build two.onnx --opt-shapes",
        "validate two.onnx conv.onnx --fix --input-shapes",
        "check --input-values sizes:[3,4] two.onnx --input-shapes",
    ],
)
def test_inputs_of_the_model_on_the_line(two_inputs: Path, line: str):
    assert offered(two_inputs, f"qdqtool {line} ") == ["image:", "sizes:"]


def test_an_input_after_another_one(two_inputs: Path):
    assert offered(two_inputs, "qdqtool check two.onnx --input-shapes image:1x3,s") == ["image:1x3,sizes:"]
    assert offered(two_inputs, "qdqtool check two.onnx --input-shapes im") == ["image:"]


@pytest.mark.parametrize("model", ["", "absent.onnx ", "text.onnx ", "empty.onnx ", ". "])
def test_without_a_readable_model_nothing_is_offered_or_said(folder: Path, model: str):
    assert offered(folder, f"qdqtool quantize {model}--nodes-to-exclude ") == []


def test_a_name_that_would_break_the_answer_is_left_out(folder: Path):
    assert offered(folder, "qdqtool quantize hostile.onnx --nodes-to-exclude ") == ["y"]


@pytest.mark.parametrize(
    "name",
    [
        "$(touch${IFS}PWNED)",
        "`touch PWNED`",
        "a;touch PWNED",
        "a&&b",
        "a|b",
        "<(id)",
        "a b",
        "'",
        '"',
        "a\\b",
        "~root",
        "=ls",
        *("-o", "!!", "*", "a?", "[a]", "{a,b}", "#x", "a\u202eb", "%1", "a^b", "a\nb"),
    ],
)
def test_a_name_that_a_shell_would_not_take_literally_is_never_offered(name: str):
    assert [item.value for item in offer(lambda _: (name, "conv"))(None, None, "")] == ["conv"]


@pytest.mark.parametrize("name", ["/model/conv.1/Conv_2", "model:0", "a@b", "a+b-c", "Größe", "12"])
def test_usual_names_are_offered(name: str):
    assert [item.value for item in offer(lambda _: (name,))(None, None, name[:1])] == [name]


def test_weights_are_not_read(folder: Path):
    model = conv_model()
    onnx.save(model, folder / "big.onnx", save_as_external_data=True, location="big.data", size_threshold=0)
    (folder / "big.data").unlink()
    assert offered(folder, "qdqtool quantize big.onnx --op-types-to-exclude C") == ["Conv"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_a_real_bash_completes(folder: Path):
    """Source the script as the page says, and call the function that bash calls at the key."""
    program = folder / "qdqtool"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m qdqtool "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    script = (
        'eval "$(_QDQTOOL_COMPLETE=bash_source qdqtool)"; COMP_WORDS=(qdqtool schema pl); COMP_CWORD=2; '
        '_qdqtool_completion qdqtool; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env={**os.environ, **path}, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("plan-file\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(folder: Path, shell: str):
    done = subprocess.run(
        [sys.executable, "-m", "qdqtool"],
        env={**os.environ, "_QDQTOOL_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert f"_QDQTOOL_COMPLETE={shell}_complete" in done.stdout
