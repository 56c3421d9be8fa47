"""Reductions with commands in processes of their own: crashes, time-outs, the builder, the numbers."""

import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.engine_models import crashing
from support.paths import ROOT
from support.planted import network, operators, random_network

import qdqtool as qdq
from qdqtool.errors import OutputError, UsageError
from qdqtool.jobs.reduce import reduce_model
from qdqtool.jobs.reduction.options import ReduceOptions
from qdqtool.jobs.reduction.subgraph import INLINE_BYTES

FAIL_ON = ROOT / "tests" / "support" / "fail_on.py"
NETWORK = random_network(0, 16, {9: "Elu"})


def fail_on(how: str, op_type: str = "Elu", log: Path | None = None) -> str:
    words = [sys.executable, "-P", str(FAIL_ON), how, op_type, "{}"]
    return shlex.join([*words, *([str(log)] if log else [])])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(NETWORK, path)
    return path


def left(path: Path) -> list[str]:
    return operators(onnx.load(str(path)))


@pytest.mark.slow(reason="builds many candidates")
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL"])
def test_a_crash_is_reduced_to_the_node_that_makes_it(name: str, model: Path, tmp_path: Path):
    small = tmp_path / "small.onnx"
    report = reduce_model(model, small, fail_on(name))
    assert left(small) == ["Elu"]
    assert (report.after.kind, report.after.detail) == ("signal", name)
    done = subprocess.run(shlex.split(report.command), capture_output=True, check=False)
    assert done.returncode == -signal.Signals[name]


def test_a_time_out_is_a_failure_of_its_own(tmp_path: Path):
    """The command loads nothing heavy, so that a busy machine does not look like a hanging command."""
    script = tmp_path / "hang.py"
    script.write_text("import pathlib, sys, time\nif b'Elu' in pathlib.Path(sys.argv[1]).read_bytes(): time.sleep(99)")
    onnx.save(random_network(0, 8, {5: "Elu"}), tmp_path / "model.onnx")
    fails = f"{sys.executable} -S {script} {{}}"
    report = reduce_model(tmp_path / "model.onnx", tmp_path / "small.onnx", fails, ReduceOptions(timeout=4))
    assert left(tmp_path / "small.onnx") == ["Elu"]
    assert (report.after.kind, report.short_timeout) == ("time-out", False)


def test_a_time_limit_that_passing_runs_nearly_reach_is_told(tmp_path: Path):
    script = tmp_path / "slow.py"
    script.write_text(
        "import pathlib, sys, time\ntime.sleep(99 if b'Elu' in pathlib.Path(sys.argv[1]).read_bytes() else 2.5)"
    )
    onnx.save(random_network(0, 3, {1: "Elu"}), tmp_path / "model.onnx")
    fails = f"{sys.executable} -S {script} {{}}"
    report = reduce_model(tmp_path / "model.onnx", tmp_path / "small.onnx", fails, ReduceOptions(timeout=4.5))
    assert report.short_timeout


@pytest.mark.slow(reason="a process for each step")
def test_a_crash_of_a_candidate_does_not_stand_for_a_message(model: Path, tmp_path: Path):
    """Without Elu the command crashes: only what fails with the message is kept."""
    script = tmp_path / "both.py"
    script.write_text(
        "import onnx, os, sys\n"
        "ops = {n.op_type for n in onnx.load(sys.argv[1]).graph.node}\n"
        "sys.exit('refused') if 'Elu' in ops else os.abort()\n"
    )
    report = reduce_model(model, tmp_path / "small.onnx", f"{sys.executable} {script} {{}}")
    assert left(tmp_path / "small.onnx") == ["Elu"]
    assert report.after.message == "refused"


@pytest.mark.slow(reason="builds many candidates")
def test_what_a_command_prints_can_decide(model: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="does not fail"):
        reduce_model(model, tmp_path / "small.onnx", fail_on("say"))
    report = reduce_model(model, tmp_path / "small.onnx", fail_on("say"), ReduceOptions(match="WRONG in \\w+"))
    assert left(tmp_path / "small.onnx") == ["Elu"]
    assert report.after.message == "WRONG in Elu"


@pytest.mark.slow(reason="builds many candidates")
def test_the_report_counts_what_was_run_and_repeats_itself(model: Path, tmp_path: Path):
    reports = []
    for name in ("a", "b"):
        log = tmp_path / f"{name}.log"
        reports.append(reduce_model(model, tmp_path / "small.onnx", fail_on("exit", log=log)))
        assert len(log.read_text().splitlines()) == reports[-1].runs
        bytes_ = (tmp_path / "small.onnx").read_bytes()
        (tmp_path / f"{name}.onnx").write_bytes(bytes_)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert reports[0].history == reports[1].history
    assert sum(step.runs for step in reports[0].steps) == reports[0].runs
    assert reports[0].before.message == "error: one of 16 nodes is not supported"
    assert reports[0].after.message == "error: one of 1 nodes is not supported"
    assert (reports[0].complete, reports[0].stable) == (True, True)


@pytest.mark.slow(reason="a process for each step")
def test_the_bug_report_has_command_error_and_versions(model: Path, tmp_path: Path):
    report = reduce_model(model, tmp_path / "small.onnx", fail_on("exit"))
    assert report.report == str(tmp_path / "small.md")
    text = (tmp_path / "small.md").read_text()
    for part in (report.command, "one of 1 nodes is not supported", "one of 16 nodes", f"- onnx: {onnx.__version__}"):
        assert part in text
    assert "Elu" in text.split("## Model")[1]


@pytest.mark.slow(reason="a process that is interrupted")
def test_ctrl_c_leaves_the_smallest_model_so_far(model: Path, tmp_path: Path):
    small, log = tmp_path / "small.onnx", tmp_path / "log"
    words = [
        sys.executable,
        "-m",
        "qdqtool",
        "reduce",
        str(model),
        "--fails",
        fail_on("exit", log=log),
        "-o",
        str(small),
    ]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (log.exists() and len(log.read_text().splitlines()) >= 5) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "interrupted; the smallest model so far" in err
    assert "Elu" in left(small)
    assert len(left(small)) < 16
    assert "## To reproduce" in (tmp_path / "small.md").read_text()


def test_external_data_that_is_not_needed_is_left_behind(tmp_path: Path):
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Add", ["a", "small"], ["b"]),
             helper.make_node("Elu", ["b"], ["c"]), helper.make_node("Add", ["c", "large"], ["y"])]  # fmt: skip
    big = np.ones((1, 6), np.float32).repeat(4, 0)
    proto = network(nodes, ["y"], {"small": big, "large": big})
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(300_000, np.float32), "unused"))
    (tmp_path / "given").mkdir()
    path = tmp_path / "given" / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights", size_threshold=0)
    report = reduce_model(path, tmp_path / "small.onnx", fail_on("SIGSEGV"))
    assert left(tmp_path / "small.onnx") == ["Elu"]
    assert report.external_data is None
    assert report.sizes_before.bytes > 1_200_000
    assert report.sizes_after.bytes < 500


@pytest.mark.slow(reason="a process for each step")
def test_large_weights_that_are_needed_go_beside_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("qdqtool.jobs.reduction.subgraph.INLINE_BYTES", 1000)
    assert INLINE_BYTES > 1000
    weight = np.random.default_rng(0).normal(size=(6, 400)).astype(np.float32)
    proto = network([helper.make_node("MatMul", ["x", "w"], ["y"])], ["y"], {"w": weight})
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 400
    (tmp_path / "given").mkdir()
    path = tmp_path / "given" / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights", size_threshold=0)
    script = tmp_path / "same.py"
    script.write_text(
        "import onnx, sys\nfrom onnx import numpy_helper\n"
        "(w,) = onnx.load(sys.argv[1]).graph.initializer or [None]\n"
        f"sys.exit('wrong') if w and abs(float(numpy_helper.to_array(w).sum()) - {float(weight.sum())}) < 1e-3 else 0\n"
    )
    report = reduce_model(path, tmp_path / "small.onnx", f"{sys.executable} {script} {{}}")
    assert report.external_data == str(*tmp_path.glob("small.onnx.*.data"))
    (tensor,) = onnx.load(str(tmp_path / "small.onnx")).graph.initializer
    assert np.array_equal(numpy_helper.to_array(tensor), weight)


@pytest.mark.parametrize(
    ("fails", "options", "said"),
    [
        ("", {}, "--fails is empty"),
        ("python x.py", {}, "has no placeholder for the model"),
        ("python 'x.py {}", {}, "cannot be split into words"),
        (f"{sys.executable} -c pass {{}}", {"match": "("}, "not a regular expression"),
        (f"{sys.executable} -c 1/0 {{}}", {}, "fails in the same way on a model that only copies its inputs"),
        ("build", {"options": ("--no-such-option",)}, "No such option"),
    ],
)
def test_wrong_use_is_refused(fails: str, options: dict[str, object], said: str, model: Path, tmp_path: Path):
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        reduce_model(model, tmp_path / "small.onnx", fails, ReduceOptions(**options))
    assert not (tmp_path / "small.onnx").exists()


def test_outputs_are_checked_before_anything_runs(model: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="also an input"):
        reduce_model(model, model, fail_on("exit"))
    with pytest.raises(OutputError, match="does not exist"):
        reduce_model(model, tmp_path / "no" / "small.onnx", fail_on("exit"))


def test_input_shapes_are_fixed_first(tmp_path: Path):
    proto = random_network(0, 10, {5: "Elu"})
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    options = ReduceOptions(input_shapes={"x": (4, 6)})
    reduce_model(path, tmp_path / "small.onnx", fail_on("exit"), options)
    (value,) = onnx.load(str(tmp_path / "small.onnx")).graph.input
    assert all(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def quantized_chain(zero_points: dict[int, int]) -> onnx.ModelProto:
    """Eight pairs between Relus; the pairs of these positions have these zero points."""
    nodes, last = [], "x"
    for index in range(8):
        scale = ["s", f"z{index}"]
        nodes += [
            helper.make_node("Relu", [last], [f"r{index}"]),
            helper.make_node("QuantizeLinear", [f"r{index}", *scale], [f"q{index}"]),
            helper.make_node("DequantizeLinear", [f"q{index}", *scale], [f"d{index}"]),
        ]
        last = f"d{index}"
    nodes.append(helper.make_node("Relu", [last], ["y"]))
    weights = {f"z{index}": np.int8(zero_points.get(index, 0)) for index in range(8)}
    return network(nodes, ["y"], {"s": np.float32(0.02), **weights})


@pytest.mark.builder
@pytest.mark.slow(reason="a process for each step")
def test_a_refusal_of_the_parser_is_reduced_to_its_node(tmp_path: Path):
    onnx.save(quantized_chain({5: 3}), tmp_path / "model.onnx")
    options = ReduceOptions(options=("--backend", "tensorrt-rtx", "--skip-validate"))
    report = reduce_model(tmp_path / "model.onnx", tmp_path / "small.onnx", "build", options)
    assert (report.after.kind, report.after.detail) == ("refused", "parse")
    assert "zero point is not 0" in report.after.message
    (kind,) = left(tmp_path / "small.onnx")
    assert kind in {"QuantizeLinear", "DequantizeLinear"}
    assert report.runs < 10


@pytest.mark.builder
@pytest.mark.slow(reason="a process for each step")
def test_a_refusal_of_a_rule_is_reduced_to_its_node(tmp_path: Path):
    onnx.save(quantized_chain({2: 3}), tmp_path / "model.onnx")
    report = reduce_model(tmp_path / "model.onnx", tmp_path / "small.onnx", "build --backend tensorrt-rtx")
    assert (report.after.kind, report.after.detail) == ("refused", "validate")
    assert len(left(tmp_path / "small.onnx")) == 1


@pytest.mark.slow(reason="builds many candidates")
@pytest.mark.builder
def test_a_crash_of_the_builder_is_reduced_to_its_product(tmp_path: Path):
    proto = crashing()
    (output,) = proto.graph.output
    for index in range(4):
        proto.graph.node.append(helper.make_node("Relu", [output.name], [f"after{index}"]))
        output.name = f"after{index}"
    onnx.save(proto, tmp_path / "model.onnx")
    options = ReduceOptions(options=("--backend", "tensorrt-rtx", "--skip-validate"))
    report = reduce_model(tmp_path / "model.onnx", tmp_path / "small.onnx", "build", options)
    assert "crashed with SIGSEGV while building" in report.after.message
    assert "Relu" not in left(tmp_path / "small.onnx")
    assert left(tmp_path / "small.onnx").count("MatMul") == 1


def broken(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, whose sixth pair has scales that differ: its DQ does not undo its Q."""
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(0.5), "other"))
    pair = [node for node in proto.graph.node if node.op_type == "DequantizeLinear"][5]
    pair.input[1] = "other"
    return proto


@pytest.mark.slow(reason="builds many candidates")
def test_a_missed_gate_of_check_is_reduced_to_its_pair(tmp_path: Path):
    onnx.save(broken(quantized_chain({})), tmp_path / "model.onnx")
    report = reduce_model(tmp_path / "model.onnx", tmp_path / "small.onnx", "check --samples 1")
    assert report.after.kind == "gate"
    assert report.after.message.startswith("pairs:")
    proto = onnx.load(str(tmp_path / "small.onnx"))
    assert operators(proto) == ["QuantizeLinear", "DequantizeLinear"]
    assert len({node.input[1] for node in proto.graph.node}) == 2


@pytest.mark.slow(reason="builds many candidates")
def test_check_with_a_baseline_cuts_both_models_alike(tmp_path: Path):
    proto = quantized_chain({})
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(1e-5), "tiny"))
    for node in [each for each in proto.graph.node if each.output[0] in {"q3", "d3"}]:
        node.input[1] = "tiny"
    onnx.save(proto, tmp_path / "model.onnx")
    names = ["x", *(f"r{index}" for index in range(8)), "y"]
    onnx.save(
        network([helper.make_node("Relu", [one], [two]) for one, two in itertools.pairwise(names)], ["y"]),
        tmp_path / "float.onnx",
    )
    options = ReduceOptions(options=("--baseline", str(tmp_path / "float.onnx"), "--samples", "2"))
    report = reduce_model(tmp_path / "model.onnx", tmp_path / "small.onnx", "check", options)
    assert report.after.message.startswith("activations:")
    small = onnx.load(str(tmp_path / "small.onnx"))
    assert {"q3", "d3"} <= {name for node in small.graph.node for name in node.output}
    assert len(small.graph.node) <= 6
    assert report.baseline == str(tmp_path / "small.baseline.onnx")
    cut = onnx.load(report.baseline)
    assert [value.name for value in cut.graph.output] == [value.name for value in small.graph.output]
    with pytest.raises(UsageError):  # the written pair fails no other command than the one in the report
        reduce_model(tmp_path / "small.onnx", tmp_path / "again.onnx", f"{sys.executable} -c pass {{}}")
    assert not qdq.check_model(tmp_path / "small.onnx", baseline=report.baseline).passed


@pytest.mark.slow(reason="builds many candidates")
def test_a_nan_is_reduced_to_the_node_that_makes_it(tmp_path: Path):
    """Real numbers: the square root of negative numbers, deep in a network, in ONNX Runtime."""
    proto = random_network(7, 30, {14: "Sqrt"})
    for node in proto.graph.node:
        if node.op_type == "Sqrt":
            node.input[0] = "x"
    onnx.save(proto, tmp_path / "model.onnx")
    report = reduce_model(tmp_path / "model.onnx", tmp_path / "small.onnx", "check --samples 1")
    assert report.after.message.startswith("finite:")
    assert left(tmp_path / "small.onnx") == ["Sqrt"]
