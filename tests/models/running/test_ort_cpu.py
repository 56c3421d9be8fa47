"""The reference session: its options, its errors in one line, and where it finds weights."""

import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from support.qdq import pair_model
from support.small import conv_model, make_model, matmul_model, run

from qdqtool.errors import CapabilityError, ModelError, QdqError, UsageError
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.tensors import pending_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.options import Profile
from qdqtool.models.payload import Payload
from qdqtool.models.running import ort_cpu
from qdqtool.models.running.machine import cpu_features, cpu_name
from qdqtool.models.running.ort_cpu import Session, reference
from qdqtool.models.running.ort_errors import session_error


def test_the_semantic_profile_is_set_as_it_is_described() -> None:
    options = ort_cpu._session_options(Profile.SEMANTIC)
    described = reference(Model(conv_model())).options
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    assert options.use_deterministic_compute is True
    for key in ("session.disable_quant_qdq", "session.qdq_matmulnbits_accuracy_level", "session.set_denormal_as_zero"):
        assert options.get_session_config_entry(key) == described[key]
    for name in ("graph_optimization_level", "intra_op_num_threads", "execution_mode", "use_deterministic_compute"):
        assert described[name] in str(getattr(options, name))


def test_the_deployed_profile_is_onnxruntime_as_it_comes() -> None:
    options, plain = ort_cpu._session_options(Profile.DEPLOYED), onnxruntime.SessionOptions()
    assert options.graph_optimization_level == plain.graph_optimization_level
    assert options.intra_op_num_threads == plain.intra_op_num_threads
    assert reference(Model(conv_model()), Profile.DEPLOYED).options == {}


def test_the_optimized_profile_is_the_deployed_one_but_for_qdq() -> None:
    options, plain = ort_cpu._session_options(Profile.OPTIMIZED), onnxruntime.SessionOptions()
    assert options.graph_optimization_level == plain.graph_optimization_level
    assert options.intra_op_num_threads == plain.intra_op_num_threads
    described = reference(Model(conv_model()), Profile.OPTIMIZED).options
    assert described == {"session.disable_quant_qdq": "1"}
    assert {key: options.get_session_config_entry(key) for key in described} == described


def test_the_optimized_profile_computes_q_and_dq_as_they_are_defined() -> None:
    """At the default level the weight-only int4 MatMul quantizes its activations."""
    x = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    codes = np.random.default_rng(1).integers(-8, 8, (64, 32)).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["w"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    proto = make_model(nodes, {"x": (4, 64)}, {"y": (4, 32)}, {"scale": np.full((2, 32), 0.1, np.float32)}, opset=21)
    for name, values in (("q", codes), ("zero", np.zeros((2, 32)))):
        proto.graph.initializer.append(helper.make_tensor(name, TensorProto.INT4, values.shape, values.reshape(-1)))
    proto.ir_version = 10
    expected = x.astype(np.float64) @ (codes * np.float64(np.float32(0.1)))
    errors = {}
    for profile in (Profile.SEMANTIC, Profile.OPTIMIZED, Profile.DEPLOYED):
        with Session(Model(proto), profile) as session:
            errors[profile] = np.abs(session.run({"x": x})["y"] - expected).max()
    # 64 products of magnitudes up to 4 * 0.8, each sum rounded.
    bound = 64 * 2**-24 * np.max(np.abs(x) @ np.abs(codes * 0.1))
    assert errors[Profile.SEMANTIC] <= bound
    assert errors[Profile.OPTIMIZED] <= bound
    assert errors[Profile.DEPLOYED] > 10 * bound


def test_the_reference_names_versions_and_processor() -> None:
    found = reference(Model(conv_model(opset=18, ir_version=8)))
    assert (found.runtime, found.version) == ("onnxruntime", onnxruntime.__version__)
    assert (found.opset, found.ir_version, found.providers) == (18, 8, ("CPUExecutionProvider",))
    assert found.cpu == cpu_name()
    assert set(found.cpu_features) == set(cpu_features())


def test_a_session_computes_what_onnxruntime_computes() -> None:
    x = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)
    with Session(Model(conv_model())) as session:
        assert session.outputs == ("y",)
        assert session.run({"x": x})["y"].tobytes() == run(conv_model(), {"x": x})[0].tobytes()


def test_external_weights_are_read_from_the_models_folder_for_changed_copies_too(tmp_path: Path) -> None:
    onnx.save(matmul_model(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    model = load_model(tmp_path / "m.onnx")
    changed = onnx.ModelProto()
    changed.CopyFrom(model.proto)
    changed.graph.output.append(onnx.ValueInfoProto(name="w"))
    x = np.eye(8, dtype=np.float32)
    with Session(Model(changed, model.path)) as session:
        found = session.run({"x": x})
    stored = onnx.numpy_helper.to_array(matmul_model().graph.initializer[0])
    assert found["w"].tolist() == stored.tolist()
    assert found["y"].tolist() == stored.tolist()  # the input is the unit matrix


@pytest.mark.parametrize("stored_outside", [False, True])
def test_pending_weights_are_made_in_memory_or_in_a_temporary_folder_that_goes(
    stored_outside: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model = Model(matmul_model(), stored_outside=stored_outside)
    weights = np.full((8, 6), 2, np.float32)
    tensor = pending_tensor(model, "w", (8, 6), TensorProto.FLOAT, Payload(weights.nbytes, weights.tobytes))
    model.proto.graph.initializer[0].CopyFrom(tensor)
    with Session(model) as session:
        assert bool(list(tmp_path.iterdir())) == stored_outside
        assert session.run({"x": np.ones((1, 8), np.float32)})["y"].tolist() == [[16.0] * 6]
    assert list(tmp_path.iterdir()) == []


def test_without_onnxruntime_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(CapabilityError, match="onnxruntime is not installed") as caught:
        Session(Model(conv_model()))
    assert "pip install" in (caught.value.hint or "")
    assert caught.value.exit_code == 4


def nameless(op: str, **attributes: object) -> Model:
    node = helper.make_node(op, ["x"], ["made_here"], domain="my" if op == "Custom" else "", **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", 1, [2])], [onnx.ValueInfoProto(name="made_here")]
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    return Model(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def test_a_missing_kernel_names_the_node_even_without_a_name() -> None:
    model = pair_model(TensorProto.FLOAT4E2M1)
    model.proto.opset_import[0].version, model.proto.ir_version = 23, 11
    for node in model.proto.graph.node:
        node.name = ""
    with pytest.raises(
        CapabilityError, match=r"no kernel for QuantizeLinear \(opset 23\).*'QuantizeLinear -> q'"
    ) as caught:
        Session(model)
    assert "convert the model to types that ONNX Runtime has kernels for" in caught.value.hint


def test_an_unknown_operator_is_a_missing_capability(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CapabilityError, match="my::Custom of node 'made_here'"):
        Session(nameless("Custom"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("field", "expected"), [("opset", "up to 2"), ("ir", "Unsupported model IR version")])
def test_versions_that_are_too_new_are_missing_capabilities(field: str, expected: str) -> None:
    model = pair_model(TensorProto.INT8)
    if field == "opset":
        model.proto.opset_import[0].version = 99
    else:
        model.proto.ir_version = 99
    with pytest.raises(CapabilityError, match=expected):
        Session(model)


def test_an_invalid_model_is_refused_in_one_line_without_source_positions() -> None:
    model = Model(conv_model())
    model.proto.graph.node[0].input[0] = "nowhere"
    with pytest.raises(ModelError) as caught:
        Session(model)
    assert "nowhere" in caught.value.message
    assert "qdqtool validate" in caught.value.hint
    assert "\n" not in caught.value.message
    assert ".cc:" not in caught.value.message


def test_a_failing_node_is_named_in_one_line_without_source_positions(capfd: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    model = make_model(nodes, {"x": ("n",)}, {"y": (3,)}, {"shape": np.array([3], np.int64)})
    with Session(Model(model)) as session, pytest.raises(UsageError) as caught:
        session.run({"x": np.zeros(4, np.float32)})
    assert "Reshape node 'Reshape -> y' failed" in caught.value.message
    assert "\n" not in caught.value.message
    assert "onnxruntime_src" not in caught.value.message
    assert capfd.readouterr() == ("", "")


def test_an_error_of_the_binding_is_not_printed_where_reports_go(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """At a RuntimeError the binding prints to stdout and tries again, unless it is told not to."""

    def fails(*_: object) -> None:
        raise RuntimeError("Failed to find node output")

    monkeypatch.setattr(onnxruntime.InferenceSession, "_create_inference_session", fails)
    node = helper.make_node("Relu", ["x"], ["y"])
    with pytest.raises(QdqError, match="Failed to find node output"):
        Session(Model(make_model([node], {"x": (2,)}, {"y": (2,)}, {})))
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("unit", ["x", "/", "/a", "a.cc:1 ", "/a.cc:1 ) "])
def test_an_error_with_an_endless_name_is_translated_in_seconds(unit: str) -> None:
    begun = time.process_time()
    session_error(RuntimeError(f"[ONNXRuntimeError] : 1 : FAIL : {unit * (50_000 // len(unit))}"), "1")
    assert time.process_time() - begun < 3


def test_many_inputs_are_not_searched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A masked model has thousands: the search in ONNX Runtime's Python class would be quadratic in them."""
    names = [f"x{number}" for number in range(ort_cpu.MANY_FEEDS + 1)]
    nodes = [helper.make_node("Sum", names, ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    proto = make_model(nodes, dict.fromkeys(names, (3,)), {"y": (3,), "z": (3,)}, {}, opset=21)
    feeds = {name: np.full(3, number, np.float32) for number, name in enumerate(names)}
    expected = np.full(3, sum(range(len(names))), np.float32)
    searched: list[int] = []
    monkeypatch.setattr(onnxruntime.InferenceSession, "_validate_input", lambda _, names: searched.append(len(names)))
    with Session(Model(proto)) as session:
        found, last = session.run(feeds), session.run(feeds, ["z"])
        assert session.run(feeds, []) == {}
        with pytest.raises(QdqError, match="x7"):
            session.run({name: array for name, array in feeds.items() if name != "x7"})
        with pytest.raises(QdqError, match="more"):
            session.run(feeds | {"more": feeds["x0"]})
    assert list(found) == ["y", "z"]
    assert list(last) == ["z"]
    np.testing.assert_array_equal(found["y"], expected)
    np.testing.assert_array_equal(last["z"], -expected)
    assert searched == []


def test_bfloat16_inputs_are_refused_at_once_so_that_the_evaluator_takes_over():
    """ONNX Runtime 1.31.1 loads this model, and fails when it runs."""
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (bfloat16[2] x) => (float[2] y) { y = Cast <to = 1> (x) }'
    )
    with pytest.raises(CapabilityError, match="no bfloat16 tensors"):
        Session(Model(proto))
