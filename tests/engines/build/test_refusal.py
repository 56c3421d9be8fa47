"""A refusal names the node and the way out; an unknown one shows its own words and the command that reduces it."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from support.engine_models import Net, crashing, matmul, recursive, refused, save

from qdqtool.__main__ import main
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.refusal import FailedBuild, explain
from qdqtool.engines.report import Refusal
from qdqtool.engines.tensorrt.builder import BuilderFailedError, BuildRefusedError, EngineRequest
from qdqtool.engines.tensorrt.parser_errors import builder_refusals, translate
from qdqtool.jobs.build import build_engine
from qdqtool.models.graph.io.load import load_model

UNCHECKED = BuildOptions(skip_validate=True, timeout=120)
REDUCE = "`qdqtool reduce {} --fails build -o small.onnx -- --backend tensorrt-rtx{}`"


class Refusing:
    """A builder that refuses every model, or fails on it."""

    id, target = "tensorrt-rtx", "tensorrt-rtx"

    def __init__(self, error: BuildRefusedError | None = None) -> None:
        self._error = error or BuildRefusedError("Builder", (Refusal(reason="it is Tuesday"),), "build")

    def build(self, request: EngineRequest) -> None:
        raise self._error


def attempt(path: Path, folder: Path, options: BuildOptions | None = None) -> FailedBuild:
    request = EngineRequest(model=load_model(path), engine=folder / "e")
    return FailedBuild(
        builder=Refusing(), request=request, path=path, options=options or BuildOptions(), is_specialized=False
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return save(matmul(), tmp_path)


def test_an_unknown_message_shows_its_words_and_the_command_that_reduces_it(path: Path, tmp_path: Path):
    raw = "IBuilder::x: Error Code 4: API Usage Error (The moon is full. In wane at /_src/moon.cpp:3)"
    error = explain(
        BuildRefusedError("RTX", builder_refusals([("ERROR", raw)], None), "build"), attempt(path, tmp_path)
    )
    assert error.message == "RTX refuses the model: the moon is full"
    assert error.refusals[0].message == "The moon is full"
    assert not error.refusals[0].explained
    command = REDUCE.format(path, "")
    assert error.refusals[0].hint == f"qdqtool does not know this message; {command} finds the smallest model with it"
    assert error.hint == f"{error.remark}; {error.refusals[0].hint}"


def test_an_unknown_message_about_a_node_names_it_too(path: Path, tmp_path: Path):
    refusal = translate("The moon is full", node="number 0", op_type="QuantizeLinear")
    error = explain(BuildRefusedError("RTX", (refusal,), "parse"), attempt(path, tmp_path, UNCHECKED))
    assert error.message == "RTX refuses node 'x_q.QuantizeLinear' (QuantizeLinear): the moon is full"
    assert "--skip-validate --timeout" not in error.hint
    assert "small.onnx --timeout 120 -- --backend tensorrt-rtx --skip-validate`" in error.hint


def test_a_known_message_about_no_node_offers_to_find_it(path: Path, tmp_path: Path):
    refusal = translate("CHECK(dtype == W.type()) failed")
    error = explain(BuildRefusedError("RTX", (refusal,), "build"), attempt(path, tmp_path))
    assert error.refusals[0].explained
    assert error.hint.endswith(f"{REDUCE.format(path, '')} finds the node")


def test_a_known_message_that_the_rules_confirm_has_node_code_and_fix(tmp_path: Path):
    path = save(refused(), tmp_path)
    refusal = translate("b: input has type Int32 but must have type FP8", node="bias_d.DequantizeLinear", op_type="Op")
    error = explain(BuildRefusedError("RTX", (refusal,), "parse"), attempt(path, tmp_path))
    assert error.refusals[0].code == "QL301"
    fix = f"`qdqtool validate --target tensorrt-rtx --fix {path} -o OUT.onnx` does that"
    assert error.refusals[0].hint.endswith(fix)


def test_a_crash_names_what_the_rules_find(tmp_path: Path):
    path = save(crashing(), tmp_path)
    failure = BuilderFailedError("RTX", "crashed with SIGSEGV while building", "build", hint="look")
    error = explain(failure, attempt(path, tmp_path))
    assert isinstance(error, BuilderFailedError)
    assert error.message.startswith(
        "RTX crashed with SIGSEGV while building, probably because of QT406 in node 'y.MatMul' (MatMul): MatMul "
    )
    (refusal,) = error.refusals
    assert (refusal.node, refusal.op_type, refusal.code) == ("y.MatMul", "MatMul", "QT406")
    assert error.hint == f"look; {REDUCE.format(path, '')} finds the smallest model with this fault"


def test_a_crash_on_an_operator_that_others_define_has_the_command_that_writes_it_so(tmp_path: Path):
    net = Net(opset=23)
    net.op("Attention", ["x", "x", "x"], "y")
    path = save(net.model({"x": (1, 2, 4, 8)}), tmp_path)
    failure = BuilderFailedError("RTX", "crashed with SIGSEGV while building", "build")
    error = explain(failure, attempt(path, tmp_path))
    assert error.refusals[0].code == "QT402"
    assert f"{path} OUT.onnx`" in error.hint


def test_a_crash_on_a_model_without_findings_keeps_its_advice(path: Path, tmp_path: Path):
    failure = BuilderFailedError("RTX", "crashed", "build", hint="look at `x MODEL`")
    error = explain(failure, attempt(path, tmp_path))
    assert error.message == "RTX crashed; no engine was written"
    assert error.hint.startswith(f"look at `x {path}`; `qdqtool reduce ")


def test_a_time_out_is_nobodys_fault_yet(tmp_path: Path):
    path = save(crashing(), tmp_path)
    failure = BuilderFailedError("RTX", "was stopped after 1 s while building", "build", is_slow=True, hint="wait")
    error = explain(failure, attempt(path, tmp_path))
    assert error.message == "RTX was stopped after 1 s while building; no engine was written"
    assert error.hint.startswith("wait; `qdqtool reduce ")


@pytest.mark.parametrize(
    ("again", "remark"),
    [
        (None, "the float model is refused too (it is Tuesday): quantization is not the cause"),
        (
            BuilderFailedError("RTX", "crashed", "build"),
            "the float model fails too (RTX crashed; no engine was written): quantization is not the cause",
        ),
        (BuilderFailedError("RTX", "was stopped", "build", is_slow=True), ""),
    ],
    ids=["refused", "crashed", "slow"],
)
def test_what_becomes_of_the_float_model(again: BuildRefusedError | None, remark: str, path: Path, tmp_path: Path):
    tried = replace(attempt(path, tmp_path), builder=Refusing(again))
    refusal = translate("CHECK(dtype == W.type()) failed")
    assert explain(BuildRefusedError("RTX", (refusal,), "build"), tried).remark == remark


BUILT = {
    "the parser crashes": (recursive, "SIGSEGV while parsing the model, probably because of QM612"),
    "the builder crashes": (crashing, r"SIGSEGV while building, probably because of QT406 in node 'y\.MatMul'"),
    "the builder refuses": (
        lambda: matmul(x_kind=17, axis=None),
        r"refuses node 'y\.MatMul' \(MatMul\): a MatMul, Gemm or ConvTranspose has operands quantized to different",
    ),
}


@pytest.mark.builder
@pytest.mark.parametrize("case", BUILT)
def test_the_real_builder(case: str, tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    model, message = BUILT[case]
    path = tmp_path / "m.onnx"
    onnx.save(model(), path)
    with pytest.raises(BuildRefusedError, match=message):
        build_engine(path, tmp_path / "e", options=UNCHECKED)


@pytest.mark.builder
def test_the_command_for_an_unknown_message_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("tensorrt_rtx")
    monkeypatch.chdir(tmp_path)
    save(matmul(x_kind=17, axis=None), tmp_path)
    with monkeypatch.context() as forgetful:
        forgetful.setattr("qdqtool.engines.tensorrt.parser_errors.KNOWN", ())
        with pytest.raises(BuildRefusedError, match="Input and filter have to be the same type") as caught:
            build_engine("m.onnx", "e", options=BuildOptions(skip_validate=True))
    command = re.search(r"`(qdqtool reduce .*?)`", caught.value.hint)[1]
    assert command == REDUCE.format("m.onnx", " --skip-validate").strip("`")
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    assert ended.value.code == 0, capsys.readouterr().err
    assert len(onnx.load("small.onnx").graph.node) <= 5
