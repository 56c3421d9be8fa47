"""The validate job: every scope, folded constants, many models, verdicts, and models it must not blame."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from support.generated_plan import write_generated_plan

import qdqtool
from qdqtool.errors import ArgumentError, ModelError
from qdqtool.jobs.insert import InsertOptions, insert_plan
from qdqtool.jobs.validate import validate_files, validate_model
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.policy import Policy
from qdqtool.models import targets
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model
from qdqtool.models.options import WeightStorage
from qdqtool.reports import json as json_report

HEADER = '<ir_version: 10, opset_import: ["": 21, "local": 1]>\n'
EVERY = targets.names()


def parse(text: str) -> Model:
    return Model(onnx.parser.parse_model(HEADER + text))


def findings(text: str, target: str = "tensorrt", select: str = "ALL") -> tuple[Finding, ...]:
    return validate_model(parse(text), [target], select=[select]).findings


def saved(folder: Path, name: str, code: str) -> Path:
    path = folder / name
    onnx.save(rules.get(code).INVALID[0].model(), path)
    return path


CLEAN = """agraph (float[1,2] x) => (float[1,2] y)
<float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
    q = QuantizeLinear (x, s, z)
    xd = DequantizeLinear (q, s, z)
    wd = DequantizeLinear <axis = 1> (w, ws, wz)
    y = MatMul (xd, wd)
}"""


def test_the_form_that_insert_writes_is_clean_everywhere():
    report = validate_model(parse(CLEAN), EVERY)

    assert not report.findings
    assert [target.verdict for target in report.models[0].targets] == ["pass"] * len(EVERY)


@pytest.mark.real
def test_a_float_model_is_clean_everywhere(real_model: Path):
    assert not validate_model(real_model, EVERY).findings


def test_the_default_target_is_tensorrt():
    (target,) = qdqtool.validate_model(parse(CLEAN)).models[0].targets

    assert target.target == "tensorrt"


BRANCH = """agraph (float[2] x, bool c) => (float[2] y) <float s = {0.1}, float bad = {0}, int8 z = {0}> {
    y = If (c) <
        then_branch = inner () => (float[2] t) {
            q = QuantizeLinear (x, s, z)
            [deep] t = DequantizeLinear (q, bad, z)
        },
        else_branch = other () => (float[2] u) { u = Identity (x) }
    >
}"""


def test_a_fault_in_a_branch_names_its_scope():
    (finding,) = findings(BRANCH, select="QP101")

    assert (finding.node, finding.graph, finding.tensor) == ("deep", "y.then_branch", "bad")


FUNCTION = """agraph (float[2] x) => (float[2] y) <float s = {{1}}> {{
    y = local.f (x, {scale})
}}
<domain: "local", opset_import: ["": 21]>
f (a, scale) => (b) {{
    z = Constant <value = int8 {{0}}> ()
    q = QuantizeLinear (a, scale, z)
    b = DequantizeLinear (q, scale, z)
}}"""


@pytest.mark.parametrize(("scale", "graphs"), [("s", []), ("x", ["local::f"] * 2)])
def test_a_constant_argument_of_a_function_is_a_constant_scale_and_a_variable_one_is_not(scale: str, graphs: list[str]):
    found = findings(FUNCTION.format(scale=scale), select="QP104")

    assert [finding.graph for finding in found] == graphs


def test_every_use_of_a_bad_scale_is_reported():
    found = findings(
        """agraph (float[2] x) => (float[2] y) <float s = {0}, int8 z = {0}> {
            q = QuantizeLinear (x, s, z)
            a = DequantizeLinear (q, s, z)
            b = DequantizeLinear (q, s, z)
            y = Add (a, b)
        }""",
        select="QP101",
    )

    assert len(found) == 3


def test_channels_are_named_with_index_value_and_count():
    (finding,) = findings(
        """agraph (float[1,4] x) => (float[1,4] y)
        <int8[4,4] w = {1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4}, float[4] ws = {0.1, -0.5, 0.1, 0}, int8[4] wz = {0,0,0,0}> {
            [weight] wd = DequantizeLinear <axis = 1> (w, ws, wz)
            y = MatMul (x, wd)
        }""",
        select="QP101",
    )

    assert finding.node == "weight"
    assert finding.found == "-0.5 in channel 1 (and 1 more)"
    assert finding.expected == "finite and greater than 0"


@pytest.mark.parametrize(
    "chain",
    [
        "s = Identity (a)",
        "h = Cast <to = 11> (a) s = Cast <to = 1> (h)",
        "s = Mul (a, one)",
        "s = Div (a, one)",
        "s = Max (a, a)",
        "f = Constant <value_float = 0.0> () s = Add (a, f)",
        "n = Constant <value_ints = [1]> () s = Reshape (a, n)",
    ],
)
def test_bad_scales_are_found_behind_foldable_operators(chain: str):
    found = findings(
        f"""agraph (float[2] x) => (float[2] y) <float a = {{0}}, float one = {{1}}, int8 z = {{0}}> {{
            {chain}
            q = QuantizeLinear (x, s, z)
            y = DequantizeLinear (q, s, z)
        }}""",
        select="QP101",
    )

    assert len(found) == 2
    assert {finding.effect for finding in found} == {"silent"}


def test_a_weight_shared_by_consumers_with_different_axes_is_reported_for_the_wrong_one():
    (finding,) = findings(
        """agraph (float[1,2] x) => (float[1,2] y)
        <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
            q = QuantizeLinear (x, s, z)
            xd = DequantizeLinear (q, s, z)
            wd = DequantizeLinear <axis = 1> (w, ws, wz)
            [right] a = MatMul (xd, wd)
            [wrong] b = Gemm <transB = 1> (xd, wd)
            y = Add (a, b)
        }""",
        select="QA201",
    )

    assert "'wrong'" in finding.message
    assert finding.expected == "axis 0"


def test_select_and_ignore():
    model = Model(rules.get("QP101").INVALID[0].model())

    assert {finding.code for finding in validate_model(model, select=["QP"]).findings} == {"QP101"}
    assert not validate_model(model, ignore=["QP101"]).findings


def test_errors_come_first():
    model = Model(rules.get("QL302").INVALID[0].model())
    model.proto.graph.initializer[0].float_data[0] = -1
    found = validate_model(model).findings

    assert [finding.severity for finding in found] == sorted(
        (finding.severity for finding in found), key=("error", "warning", "info").index
    )
    assert len({finding.severity for finding in found}) > 1


def test_the_json_keys_of_the_contract():
    document = json.loads(json_report.render(validate_model(Model(rules.get("QP101").INVALID[0].model()))))
    (target,) = document["models"][0]["targets"]

    assert document["schema_version"] == 1
    assert document["summary"] == {"errors": 1, "warnings": 0, "infos": 0, "suppressed": 0, "known": 0, "ignored": 0}
    assert target["verdict"] == "fail"
    assert " ".join(target["findings"][0]) == (
        "code name severity effect message node op_type tensor graph expected found extent fixable safe_fix cause "
        "context fingerprint structure"
    )


def test_an_unreadable_model_does_not_stop_the_others(tmp_path: Path):
    good = saved(tmp_path, "good.onnx", "QP101")
    (tmp_path / "bad.onnx").write_text("version https://git-lfs.github.com/spec/v1")
    report = validate_files([tmp_path / "bad.onnx", good], Policy())

    assert [model.path for model in report.unreadable] == [str(tmp_path / "bad.onnx")]
    assert "git lfs pull" in (report.models[0].error or "")
    assert report.summary.errors == 1


def test_one_unreadable_model_raises(tmp_path: Path):
    with pytest.raises(ModelError, match="no such file"):
        validate_model(tmp_path / "nothing.onnx")


@pytest.mark.parametrize(
    ("targets", "more", "said"),
    [
        (["trt"], {}, "legal"),
        ([], {}, "one or more"),
        ("tensorrt", {}, "legal|one or more"),
        (["tensorrt"], {"compute_capabilities": "8.6"}, "must be a list"),
        (["tensorrt"], {"compute_capabilities": ["ampere"]}, "'ampere' is not a compute"),
        (["tensorrt-rtx"], {"parser": True}, "save the model first"),
    ],
)
def test_illegal_targets_gpus_and_models_for_the_parser_are_refused(targets: object, more: dict, said: str):
    with pytest.raises(ArgumentError, match=said):
        validate_model(parse(CLEAN), targets, **more)


def test_an_unreadable_constant_is_a_finding():
    assert {finding.code for finding in findings(rules.get("QM613").INVALID[0].text)} >= {"QM613"}


def test_sparse_weights_are_reported():
    model = rules.get("QM609").VALID[0].model()
    dense = onnx.numpy_helper.to_array(model.graph.initializer[0])
    values = onnx.numpy_helper.from_array(dense.reshape(-1)[[0, 3]], "w")
    indices = onnx.helper.make_tensor("w_indices", onnx.TensorProto.INT64, [2], [0, 3])
    del model.graph.initializer[:]
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, list(dense.shape)))

    assert [finding.code for finding in validate_model(Model(model), ["tensorrt"]).findings] == ["QM609"]
    assert not validate_model(Model(model), ["onnx"]).findings


@pytest.mark.real
@pytest.mark.parametrize("weights", list(WeightStorage))
def test_what_insert_writes_is_clean_everywhere(real_model: Path, weights: WeightStorage, tmp_path: Path):
    plan = write_generated_plan(load_model(real_model), tmp_path)
    insert_plan(real_model, plan, tmp_path / "q.onnx", InsertOptions(weights=weights))

    # Float weights are asked for, the plan takes layers that are too small to gain, and its ranges are made up.
    assert not validate_model(tmp_path / "q.onnx", EVERY, ignore=["QM603", "QL308", "QN504"]).findings


@pytest.mark.parametrize(("side", "reported"), [(600, True), (100, False)])
def test_a_megabyte_of_float_weights_behind_a_q_is_reported(side: int, reported: bool):
    model = parse(
        """agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
            q = QuantizeLinear (w, s, z)
            wd = DequantizeLinear (q, s, z)
            y = MatMul (x, wd)
        }"""
    )
    weight = np.random.default_rng(1).uniform(-12, 12, (side, side)).astype(np.float32)
    model.proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))

    found = [finding for finding in validate_model(model, ["onnx"]).findings if finding.code == "QM603"]
    assert bool(found) == reported
    if reported:
        assert found[0].found == f"{4 * side * side} bytes"
        assert found[0].expected == f"{side * side} bytes"


def test_the_gpus_that_an_engine_is_for():
    (example,) = (each for each in rules.get("QT401").INVALID if "fp8" in each.title or "float8" in each.title)
    model = Model(example.model())
    told = validate_model(model, compute_capabilities=["8.6", "sm89"], select=["QT401"]).findings

    assert [finding.message.split(",")[0] for finding in told] == ["compute capability 8.6 has no type float8e4m3fn"]
    assert validate_model(model, select=["QT401"]).findings == ()


DET = """<ir_version: 10, opset_import: ["": 21]> agraph (float[2,2] x) => (float[2,2] y) {
    [det] d = Det (x)
    y = Add (x, d)
}"""


@pytest.fixture
def float_model(tmp_path: Path) -> Path:
    pytest.importorskip("tensorrt_rtx")
    onnx.save(onnx.parser.parse_model(DET), tmp_path / "det.onnx")
    return tmp_path / "det.onnx"


@pytest.mark.builder
def test_the_parser_refuses_a_float_model_that_no_rule_is_about(float_model: Path):
    (target,) = validate_model(float_model, ["tensorrt-rtx"], parser=None).models[0].targets

    (finding,) = target.findings
    assert (finding.code, finding.node, finding.effect, target.verdict) == ("QE701", "det", "refused", "fail")
    assert "operator Det is not supported (export the model without it" in finding.message
    assert validate_model(float_model, ["tensorrt-rtx"]).models[0].targets[0].parser == "off"


@pytest.mark.builder
def test_the_parser_is_asked_about_many_files_and_rules_are_not_repeated(float_model: Path, tmp_path: Path):
    paths = [saved(tmp_path, f"{code}.onnx", code) for code in ("QP101", "QT403", "QT404")] + [float_model]
    policy = Policy(targets=("tensorrt-rtx",), parser=None)
    targets = [model.targets[0] for model in validate_files([*paths, paths[0]], policy).models]

    assert [target.parser for target in targets] == ["asked"] * 5
    assert [bool(target.parser_messages) for target in targets] == [True] * 5
    assert [sum(finding.code == "QE701" for finding in target.findings) for target in targets] == [0, 0, 0, 1, 0]
