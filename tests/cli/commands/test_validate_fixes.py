"""``validate --fix`` and ``normalize`` on the command line."""

import json
from functools import partial
from pathlib import Path

import onnx
import pytest
from support.command import qdqtool, qdqtool_process

HEADER = '<ir_version: 10, opset_import: ["": 21]>'
EMPTY = (
    "g (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {"
    ' q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, "") }'
)
ASYMMETRIC = (
    "g (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {-12}> {"
    " [made] q = QuantizeLinear(x, s, z) [read] y = DequantizeLinear(q, s, z) }"
)
UNRUNNABLE = (
    "g (float[1,2,2,2] x) => (float[1,2,2,2] y) <float[1,1] s = {0.1}, int8[1,1] z = {0}> {"
    " q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"
)


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str, name: str = "model.onnx") -> Path:
        path = tmp_path / name
        onnx.save(onnx.parser.parse_model(f"{HEADER} {text}"), path)
        return path

    return write


@pytest.fixture
def fix(tmp_path: Path):
    return partial(qdqtool, "validate", cwd=tmp_path)


def test_a_safe_fix_is_written_and_proven(fix, write, tmp_path: Path):
    path, out = write(EMPTY), tmp_path / "out.onnx"
    before = path.read_bytes()

    done = fix(path, "--fix", "-o", out)

    assert done.code == 0
    assert "1 change made (1 safe, 0 unsafe)" in done.out
    assert (
        "safe QT404 DequantizeLinear -> y: leaves the third input out (outputs are bit-equal on 4 samples" in done.out
    )
    assert list(onnx.load(out).graph.node[1].input) == ["q", "s"]
    assert path.read_bytes() == before


def test_what_changes_numbers_waits_for_the_word(fix, write, tmp_path: Path):
    path, out = write(ASYMMETRIC), tmp_path / "out.onnx"

    done = fix(path, "--fix", "-o", out)

    assert done.code == 1
    assert "nothing was changed: the output is a copy of the model" in done.out
    assert "2 × not applied QP102 " in done.out  # noqa: RUF001 -- the sign that is printed
    assert ": quantizes int8 symmetrically to int8" in done.out
    assert "to fix" not in done.out
    assert "it changes numbers; --unsafe-fixes applies it" in done.out
    assert onnx.load(out) == onnx.load(path)


def test_unsafe_fixes_state_the_loss(fix, write, tmp_path: Path):
    done = fix(write(ASYMMETRIC), "--fix", "--unsafe-fixes", "-o", tmp_path / "out.onnx")
    assert done.code == 0
    assert "scale 0.1, zero point -12 becomes scale 0.109449, 1.09 times as wide" in done.out
    assert "SQNR against before" in done.out
    assert "SQNR to its float model: before" in done.out


def test_what_cannot_be_proven_is_not_safe(fix, write, tmp_path: Path):
    path, out = write(UNRUNNABLE), tmp_path / "out.onnx"

    refused = fix(path, "--fix", "-o", out)
    applied = fix(path, "--fix", "--unsafe-fixes", "-o", out)

    assert refused.code == 1
    assert "not applied QA207" in refused.out
    assert "it cannot be proven: " in refused.out
    assert applied.code == 0
    assert "unsafe QA207" in applied.out
    assert "not proven: " in applied.out


def test_a_diff_writes_nothing(fix, write, tmp_path: Path):
    path = write(EMPTY)
    before = path.read_bytes()

    done = fix(path, "--diff")

    assert done.code == 1
    assert "1 change would be made" in done.out
    assert "-DequantizeLinear(q, s, ) -> y [int8 scale=0.1 zero_point=none]" in done.out
    assert "+DequantizeLinear(q, s) -> y [int8 scale=0.1 zero_point=none]" in done.out
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_in_place_writes_over_the_models_that_change(fix, write):
    bad, good = write(EMPTY, "bad.onnx"), write(EMPTY.replace(', ""', ""), "good.onnx")
    bad.chmod(0o640)
    before = good.read_bytes()

    done = fix(bad, good, "--fix", "--in-place")

    assert done.code == 0
    assert list(onnx.load(bad).graph.node[1].input) == ["q", "s"]
    assert bad.stat().st_mode & 0o777 == 0o640
    assert good.read_bytes() == before
    assert sorted(file.name for file in bad.parent.iterdir()) == ["bad.onnx", "good.onnx"]


def test_the_json_report_lists_every_change(fix, write, tmp_path: Path):
    out = tmp_path / "out.onnx"

    report = json.loads(fix(write(ASYMMETRIC), "--fix", "--unsafe-fixes", "-o", out, "--output-format", "json").out)

    (model,) = report["models"]
    (change,) = model["repaired"]["changes"]
    assert report["schema_version"]
    assert change["code"] == "QP102"
    assert change["label"] == "unsafe"
    assert change["node"] == "made"
    assert model["output"] == str(out)
    assert model["targets"][0]["verdict"] == "pass"
    (output,) = model["repaired"]["outputs"]
    assert output["after_db"] < output["before_db"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("a.onnx --fix", "exactly one output must be chosen for the fixed model"),
        ("a.onnx --fix --in-place --diff", "exactly one output must be chosen for the fixed model"),
        ("a.onnx --unsafe-fixes", "--unsafe-fixes needs --fix or --diff"),
        ("a.onnx -o out.onnx", "-o needs --fix or --diff"),
        ("a.onnx b.onnx --fix -o c.onnx", "-o names one file for 2 models"),
        ("a.onnx --fix -o a.onnx", "inputs are never overwritten"),
    ],
)
def test_wrong_usage(fix, write, words: str, said: str):
    for name in ("a.onnx", "b.onnx"):
        write(EMPTY, name)
    done = fix(*words.split())
    assert done.code == 2
    assert said in done.err


def test_without_onnx_runtime(write, tmp_path: Path):
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('not here')", encoding="utf-8")

    done = qdqtool_process("validate", write(EMPTY), "--fix", "-o", tmp_path / "out.onnx", PYTHONPATH=str(tmp_path))

    assert done.code == 4
    assert "pip install" in done.err
    assert not (tmp_path / "out.onnx").exists()


def test_an_unreadable_model_does_not_stop_the_others(fix, write, tmp_path: Path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    path = write(EMPTY)

    done = fix(broken, path, "--fix", "--in-place")

    assert done.code == 3
    assert "broken.onnx" in done.err
    assert list(onnx.load(path).graph.node[1].input) == ["q", "s"]


def test_hostile_names_are_escaped(fix, write, tmp_path: Path):
    path = write(ASYMMETRIC)
    model = onnx.load(path)
    for node in model.graph.node:
        node.name = f"[/bold]\x1b[31m{node.op_type}\n"
    onnx.save(model, path)

    done = fix(path, "--diff", "--unsafe-fixes")

    assert "\x1b" not in done.out
    assert "[/bold]\\x1b[31mQuantizeLinear\\n" in done.out
