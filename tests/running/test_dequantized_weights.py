"""Weights that are dequantized once: the same bits as in a session that does it in every run."""

import weakref

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from qdqtool.errors import QdqError
from qdqtool.graph.io.load import load_model
from qdqtool.graph.io.save import ExternalData, save_model
from qdqtool.graph.io.spill import spilled
from qdqtool.graph.model import Model
from qdqtool.running import dequantized_weights
from qdqtool.running.dequantized_weights import DequantizedSession
from qdqtool.running.ort_cpu import Profile, Session
from qdqtool.running.ort_errors import RunError
from qdqtool.running.own_evaluator import open_session

RANDOM = np.random.default_rng(11)
PER_TENSOR = np.array(0.01, np.float32)
X = RANDOM.normal(size=(4, 96)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_weights_count(monkeypatch) -> None:
    monkeypatch.setattr(dequantized_weights, "LEAST_ELEMENTS", 8)


def codes(shape: tuple[int, ...], elem_type: int, name: str = "w_q") -> onnx.TensorProto:
    if elem_type in {TensorProto.INT4, TensorProto.UINT4}:
        low, high = (-8, 8) if elem_type == TensorProto.INT4 else (0, 16)
        return helper.make_tensor(name, elem_type, shape, RANDOM.integers(low, high, shape).ravel())
    if elem_type == TensorProto.FLOAT8E4M3FN:
        return helper.make_tensor(name, elem_type, shape, RANDOM.normal(size=shape).ravel() * 100)
    dtype = helper.tensor_dtype_to_np_dtype(elem_type)
    limits = np.iinfo(dtype)
    return numpy_helper.from_array(RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype), name)


def model(
    *readers: onnx.NodeProto,
    stored: onnx.TensorProto | None = None,
    scale: np.ndarray = PER_TENSOR,
    zero_point: onnx.TensorProto | None = None,
    x: tuple[int, ...] = (4, 96),
    **attributes: int,
) -> onnx.ModelProto:
    """A weight as codes with its DequantizeLinear, and what reads it; the last node makes the output ``y``."""
    stored = codes((96, 64), TensorProto.INT8) if stored is None else stored
    constants = [stored, numpy_helper.from_array(np.asarray(scale), "w_s"), *([zero_point] if zero_point else [])]
    inputs = [tensor.name for tensor in constants]
    elem_type = helper.np_dtype_to_tensor_dtype(np.asarray(scale).dtype)
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", inputs, ["w"], name="dq", **attributes), *readers],
        "g",
        [helper.make_tensor_value_info("x", elem_type, x)],
        [helper.make_tensor_value_info("y", elem_type, None)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


MATMUL = helper.make_node("MatMul", ["x", "w"], ["y"])
PER_AXIS = RANDOM.uniform(0.001, 0.1, 64).astype(np.float32)
BLOCKED = RANDOM.uniform(0.001, 0.1, (3, 64)).astype(np.float32)
ZERO_POINTS = numpy_helper.from_array(RANDOM.integers(-20, 20, 64).astype(np.int8), "w_z")
MODELS = {
    "per-tensor": model(MATMUL),
    "per-axis": model(MATMUL, scale=PER_AXIS, zero_point=ZERO_POINTS, axis=1),
    "blocked int4": model(MATMUL, stored=codes((96, 64), TensorProto.INT4), scale=BLOCKED, axis=0, block_size=32),
    "blocked uint4": model(MATMUL, stored=codes((96, 64), TensorProto.UINT4), scale=BLOCKED, axis=0, block_size=32),
    "float8": model(MATMUL, stored=codes((96, 64), TensorProto.FLOAT8E4M3FN)),
    "Gemm": model(helper.make_node("Gemm", ["x", "w"], ["y"], alpha=0.5)),
    "Conv": model(
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
        stored=codes((16, 8, 3, 3), TensorProto.INT8),
        scale=PER_AXIS[:16],
        x=(1, 8, 12, 12),
        axis=0,
    ),
    "two readers": model(
        helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Gemm", ["x", "w", "p"], ["y"])
    ),
    "body": model(
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["condition"], to=TensorProto.BOOL),
        helper.make_node(
            "If",
            ["condition"],
            ["y"],
            then_branch=helper.make_graph(
                [helper.make_node("MatMul", ["x", "w"], ["t"])], "t", [], [helper.make_empty_tensor_value_info("t")]
            ),
            else_branch=helper.make_graph(
                [helper.make_node("Identity", ["x"], ["e"])], "e", [], [helper.make_empty_tensor_value_info("e")]
            ),
        ),
    ),
    "codes read elsewhere": model(
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Cast", ["w_q"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "c"], ["q"]),
        helper.make_node("Add", ["p", "q"], ["y"]),
    ),
}


def opened(proto: onnx.ModelProto) -> DequantizedSession:
    session = open_session(Model(proto), None)
    assert isinstance(session, DequantizedSession)
    return session


@pytest.mark.parametrize("name", MODELS)
def test_every_run_has_the_bits_of_an_ordinary_session(name: str) -> None:
    proto = MODELS[name]
    given = proto.SerializeToString()
    shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    with opened(proto) as once, Session(Model(proto)) as ordinary:
        for _ in range(2):
            feeds = {"x": RANDOM.normal(size=shape).astype(np.float32)}
            assert once.run(feeds)["y"].tobytes() == ordinary.run(feeds)["y"].tobytes()
            assert once.run(feeds, ["y"]).keys() == {"y"}
    assert proto.SerializeToString() == given


def test_the_bits_of_a_stored_weight_stay_those_of_a_packed_one() -> None:
    """A weight that stays float is packed by ONNX Runtime; large enough, packing makes other bits."""
    stored = numpy_helper.from_array(RANDOM.normal(size=(64, 64)).astype(np.float32), "v")
    proto = model(helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("MatMul", ["p", "v"], ["y"]))
    proto.graph.initializer.append(stored)
    with opened(proto) as once, Session(Model(proto)) as ordinary:
        assert once.run({"x": X})["y"].tobytes() == ordinary.run({"x": X})["y"].tobytes()


def test_the_node_runs_in_no_run(monkeypatch) -> None:
    opened_models = []
    plain = Session.__init__

    def init(self, whole, profile=Profile.SEMANTIC):
        opened_models.append(whole)
        plain(self, whole, profile)

    monkeypatch.setattr(Session, "__init__", init)
    opened(MODELS["per-axis"]).close()
    assert [[node.op_type for node in each.proto.graph.node] for each in opened_models] == [
        ["DequantizeLinear"],
        ["MatMul"],
    ]
    # Neither are the codes in the memory of the session.
    assert [tensor.name for tensor in opened_models[1].proto.graph.initializer] == ["w_s", "w_z"]


def is_left(proto: onnx.ModelProto, profile: Profile = Profile.SEMANTIC) -> bool:
    with open_session(Model(proto), None, profile) as session:
        return type(session) is Session


def changed(**added: object) -> onnx.ModelProto:
    """The model with a MatMul, and something more in fields of its graph."""
    proto = model(MATMUL)
    for field, value in added.items():
        getattr(proto.graph, field).append(value)
    return proto


WEIGHT_INFO = helper.make_tensor_value_info("w", TensorProto.FLOAT, (96, 64))
COMPUTED = model(MATMUL)
COMPUTED.graph.node[0].input[1] = "half"
COMPUTED.graph.node.insert(0, helper.make_node("Mul", ["w_s", "w_s"], ["half"]))


@pytest.mark.parametrize(
    "proto",
    [
        changed(output=WEIGHT_INFO),
        changed(input=helper.make_tensor_value_info("w_s", TensorProto.FLOAT, ())),
        COMPUTED,
        # Some other bits: where a float16 node runs in float32, ONNX Runtime looks at what makes its inputs.
        model(MATMUL, scale=np.array(0.01, np.float16)),
    ],
    ids=["returned", "only a default", "computed scale", "float16"],
)
def test_what_is_left_to_every_run(proto: onnx.ModelProto) -> None:
    assert is_left(proto)
    assert not is_left(model(MATMUL))


def test_optimized_sessions_fold_weights_themselves() -> None:
    assert is_left(MODELS["per-tensor"], Profile.DEPLOYED)
    assert is_left(MODELS["per-tensor"], Profile.OPTIMIZED)


def test_small_and_very_large_weights_are_left(monkeypatch) -> None:
    monkeypatch.setattr(dequantized_weights, "MOST_BYTES", 96 * 64 * 4)
    assert not is_left(MODELS["per-tensor"])
    monkeypatch.setattr(dequantized_weights, "MOST_BYTES", 96 * 64 * 4 - 1)
    assert is_left(MODELS["per-tensor"])
    monkeypatch.undo()
    assert is_left(MODELS["per-tensor"]), "LEAST_ELEMENTS"


@pytest.mark.parametrize(
    "proto",
    [
        changed(value_info=helper.make_tensor_value_info("w", TensorProto.FLOAT16, (96, 64))),
        changed(value_info=helper.make_tensor_value_info("w", TensorProto.FLOAT, (96, 65))),
        changed(node=helper.make_node("DequantizeLinear", ["w_q", "w_s"], ["w"])),
        changed(initializer=numpy_helper.from_array(np.ones((96, 64), np.float32), "w")),
        changed(initializer=codes((96, 64), TensorProto.INT8)),
    ],
    ids=["another type", "another shape", "made by two nodes", "made and stored", "stored twice"],
)
def test_a_contradiction_is_met_as_in_an_ordinary_session(proto: onnx.ModelProto) -> None:
    def outcome(opened) -> object:
        try:
            with opened() as session:
                return session.run({"x": X})["y"].tobytes()
        except QdqError as error:
            return type(error), error.message

    assert outcome(lambda: open_session(Model(proto), None)) == outcome(lambda: Session(Model(proto)))


@pytest.mark.parametrize("feeds", [{}, {"x": X, "w": np.ones((96, 64), np.float32)}, {"z": X}])
def test_errors_name_the_inputs_of_the_model_alone(feeds: dict[str, np.ndarray]) -> None:
    said = []
    for session in (opened(MODELS["per-tensor"]), Session(Model(MODELS["per-tensor"]))):
        with session, pytest.raises(RunError) as caught:
            session.run(feeds)
        said.append(caught.value.message)
    assert said[0] == said[1]


def test_an_input_with_a_default_may_be_left_out() -> None:
    proto = model(helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"]))
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(64, np.float32), "b"))
    proto.graph.input.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, (64,)))
    with opened(proto) as once, Session(Model(proto)) as ordinary:
        for feeds in ({"x": X}, {"x": X, "b": np.zeros(64, np.float32)}):
            assert once.run(feeds)["y"].tobytes() == ordinary.run(feeds)["y"].tobytes()


def test_codes_that_are_returned_stay() -> None:
    proto = changed(output=helper.make_tensor_value_info("w_q", TensorProto.INT8, (96, 64)))
    with opened(proto) as once, Session(Model(proto)) as ordinary:
        assert [array.tobytes() for array in once.run({"x": X}).values()] == [
            array.tobytes() for array in ordinary.run({"x": X}).values()
        ]


def test_weights_are_freed_when_the_session_is_closed() -> None:
    session = opened(MODELS["per-tensor"])
    (array,) = session._weights.values()
    weak = weakref.ref(array)
    del array
    assert weak() is not None
    session.close()
    assert weak() is None


def test_a_model_that_cannot_be_opened_fails_as_ever() -> None:
    broken = model(MATMUL, scale=PER_AXIS[:5], axis=1)
    messages = []
    for start in (lambda: open_session(Model(broken), None), lambda: Session(Model(broken))):
        with pytest.raises(Exception, match=r"w_s|dq") as caught, start() as session:
            session.run({"x": X})
        messages.append((type(caught.value), str(caught.value)))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("how", ["external", "spilled"])
def test_codes_come_from_a_file(how: str, tmp_path) -> None:
    proto = MODELS["per-axis"]
    if how == "external":
        save_model(Model(proto), tmp_path / "m.onnx", external_data=ExternalData.ALWAYS)
        whole = load_model(tmp_path / "m.onnx")
    else:
        whole = spilled(Model(proto))
    assert whole.proto.ByteSize() < proto.ByteSize()
    with open_session(whole, None) as once, Session(Model(proto)) as ordinary:
        assert isinstance(once, DequantizedSession)
        assert once.run({"x": X})["y"].tobytes() == ordinary.run({"x": X})["y"].tobytes()
