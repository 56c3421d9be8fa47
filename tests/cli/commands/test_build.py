"""``qdqtool build`` as a user sees it: words, exit codes, nothing of the library's own noise."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support.command import qdqtool
from support.engine_models import conv, crashing, mixed_axes, refused, save
from support.printed import cells

pytestmark = pytest.mark.builder
NOISE = ("[TRT]", "cuda", "Myelin", "checkMacros", "/_src/")


@pytest.fixture(autouse=True)
def _has_the_builder():
    pytest.importorskip("tensorrt_rtx")


def build(folder, model, *options):
    path = save(model, folder)
    done = qdqtool("build", path, "-o", folder / "e.engine", "--backend", "tensorrt-rtx", *options)
    assert not any(word.lower() in (done.out + done.err).lower() for word in NOISE), done
    return done


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_text_report(tmp_path):
    done = build(tmp_path, mixed_axes())
    assert (done.code, done.err) == (0, "")
    assert "2 of 3 planned int8 nodes run in int8 kernels" in done.out
    assert "a.Conv (Conv): int8 -> float32, its weight has scales along axis 1" in done.out
    assert "compute capability 8.0, 8.6, 8.9, 12.0, 12.1" in done.out
    assert "e.engine.manifest.json" in done.out
    assert "The dump shows neither the code" in done.out
    assert "SKIPPED" not in done.out


def test_json_goes_to_stdout_alone(tmp_path):
    options = ("--output-format", "json", "--skip-validate", "--compute-capabilities", "sm89", "--require-precision")
    done = build(tmp_path, mixed_axes(), *options, "int8>=50%")
    report = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert (report["targets"], report["skipped"], report["achieved"]) == (["8.9"], ["validate"], {"int8": 2})
    assert report["gates"] == [{"gate": "int8>=50%", "passed": True, "found": "2 of 3 nodes (66.7 %)"}]


def test_a_missed_gate_is_exit_1_and_says_so(tmp_path):
    done = build(tmp_path, mixed_axes(), "--require-precision=int8>=95%", "--skip-validate")
    assert done.code == 1
    assert ["int8>=95%", "FAIL", "precision of the engine", "2 of 3 nodes (66.7 %)"] in cells(done.out)
    assert "no engine was written" in done.out
    assert "validate: SKIPPED" in done.out
    assert files(tmp_path) == ["m.onnx"]


def test_all_refused_nodes_are_listed(tmp_path):
    done = build(tmp_path, refused(), "--skip-validate")
    assert done.code == 1
    assert "error: TensorRT for RTX refuses node 'bias_d.DequantizeLinear'" in done.err
    assert [line.partition(" (")[0].strip() for line in done.out.splitlines()[1:]] == [
        "QL301 bias_d.DequantizeLinear",
        "QP102 c_q.QuantizeLinear",
        "QP102 c_d.DequantizeLinear",
        "unheard",
    ]


def test_a_refusal_as_json(tmp_path):
    done = build(tmp_path, refused(), "--output-format=json")
    report = json.loads(done.out)
    assert done.code == 1
    assert (report["engine"], report["passed"], report["stage"]) == (None, False, "validate")
    assert all(refusal["code"] for refusal in report["refusals"])


def test_a_crash_is_one_line_and_exit_1(tmp_path):
    done = build(tmp_path, crashing(), "--skip-validate")
    assert (done.code, done.out) == (1, "")
    crash = "error: TensorRT for RTX crashed with SIGSEGV while building, probably because of QT406 in node 'y.MatMul' "
    assert done.err.startswith(crash)
    assert done.err.splitlines()[0].endswith("; no engine was written")
    assert files(tmp_path) == ["m.onnx"]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--opt-shapes", "x:1x16"), 2, "gives 'x' rank 2"),
        (("--opt-shapes", "y:1x16x8x8"), 2, "names 'y', which is no input"),
        (("--opt-shapes", "nonsense"), 2, "cannot be read"),
        (("--compute-capabilities", "9.9"), 2, "cannot build for compute capability 9.9"),
        (("--compute-capabilities", ""), 2, "is empty"),
        (("--require-precision", "int8"), 2, "is no precision gate"),
        (("--timeout", "0"), 2, "must be greater than 0"),
        (("--export-layer-info", "/nowhere/l.json"), 2, "does not exist"),
    ],
)
def test_wrong_usage(options, code, words, tmp_path):
    done = build(tmp_path, conv(), *options)
    assert (done.code, done.out) == (code, "")
    assert words in done.err


def test_missing_shapes_are_exit_2_with_the_option_spelled_out(tmp_path):
    dynamic = conv(inputs={"x": ("batch", 16, "height", "width")})
    done = build(tmp_path, dynamic)
    assert done.code == 2
    assert "[batch, 16, height, width]" in done.err
    option = done.err.split("for example: `")[1].split("`")[0].split(" ")
    assert option == ["--opt-shapes", "x:1x16x224x224"]
    assert "input x: 1x16x224x224" in build(tmp_path, dynamic, *option).out


def test_an_absent_backend_is_exit_4_with_the_install_line(tmp_path):
    if subprocess.run([sys.executable, "-c", "import tensorrt"], capture_output=True, check=False).returncode == 0:
        pytest.skip("tensorrt is installed here")
    done = qdqtool("build", save(conv(), tmp_path), "-o", tmp_path / "e.engine", "--backend", "tensorrt")
    assert done.code == 4
    assert "pip install tensorrt" in done.err


def test_names_from_the_model_reach_the_terminal_escaped(tmp_path):
    model = mixed_axes()
    conv1 = next(node for node in model.graph.node if node.op_type == "Conv")
    conv1.name = "[bold]evil[/bold]\x1b[31m\n\u202e"
    done = build(tmp_path, model)
    assert done.code == 0
    assert "[bold]evil[/bold]\\x1b[31m\\n\\u202e (Conv): int8 -> float32" in done.out
    assert "\x1b" not in done.out


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_is_exit_130_and_leaves_nothing(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "tensorrt.py").write_text("import time\ntime.sleep(600)\n")
    path = save(conv(), tmp_path)
    words = [sys.executable, "-m", "qdqtool", "build", str(path), "-o", str(tmp_path / "e.engine"), "--skip-validate"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    process = subprocess.Popen([*words, "--backend", "tensorrt"], stderr=subprocess.PIPE, env=environment)
    with process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".e.engine.*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode()
    assert process.returncode == 130
    assert "Traceback" not in said
    assert files(tmp_path) == ["m.onnx", "site"]


def test_a_builder_that_dies_is_exit_1_and_tells_programs(tmp_path):
    done = build(tmp_path, conv(), "--skip-validate", "--timeout", "0.01", "--output-format", "json")
    assert done.code == 1
    report = json.loads(done.out)
    assert "was stopped after 0.01 s" in report["message"]
    assert (report["passed"], report["stage"], len(report["refusals"])) == (False, "parse", 1)
    assert "`--timeout SECONDS`; `qdqtool reduce " in report["hint"]
    assert [each.name for each in tmp_path.iterdir()] == ["m.onnx"]


def test_a_refusal_is_told_once_to_programs(tmp_path):
    done = build(tmp_path, refused(), "--skip-validate", "--output-format", "json")
    assert done.code == 1
    assert json.loads(done.out)["schema_version"] == 1
    assert done.err.startswith("error: TensorRT for RTX refuses")
