"""Which constants are a fault: those that neither a correction nor rounding explains."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.qdq import constant
from support.small import make_model

from qdqtool.accuracy.layers.constant_faults import ConstantFaults, other_constants, with_constants
from qdqtool.models.diff.matching import match
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.metadata import CALIBRATION_KEY
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.strip import strip_from

rng = np.random.default_rng(2)
W, V = (rng.normal(size=shape).astype(np.float32) / 4 for shape in ((6, 4, 3, 3), (6, 5)))
B, ADDED = (rng.normal(size=shape).astype(np.float32) for shape in (6, 5))
SAMPLES = [{"x": rng.normal(size=(1, 4, 6, 6)).astype(np.float32)} for _ in range(2)]
STEP = 0.05


def model(*, quantized: bool, **changed: np.ndarray) -> Model:
    """Conv with a bias -> mean -> MatMul -> Add; quantized, a pair with steps of 0.05 is in front of both products."""
    arrays = {"w": W, "b": B, "v": V, "added": ADDED, "s": np.float32(STEP)} | changed
    nodes = []
    for tensor in ("x", "m") if quantized else ():
        nodes += [
            helper.make_node("QuantizeLinear", [tensor, "s", "z"], [f"{tensor}_q"]),
            helper.make_node("DequantizeLinear", [f"{tensor}_q", "s", "z"], [f"{tensor}_d"]),
        ]
    read = {name: f"{name}_d" if quantized else name for name in ("x", "m")}
    nodes += [
        helper.make_node(
            "Conv", [read["x"], "w", "b"][: 2 + ("b" in arrays and arrays["b"] is not None)], ["c"], name="conv"
        ),
        helper.make_node("ReduceMean", ["c"], ["m"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", [read["m"], "v"], ["p"], name="product"),
        helper.make_node("Add", ["p", "added"], ["y"], name="add"),
    ]
    order = {name: number for number, name in enumerate(["x_q", "x_d", "c", "m", "m_q", "m_d", "p", "y"])}
    nodes.sort(key=lambda node: order[node.output[0]])
    stored = {name: array for name, array in arrays.items() if array is not None and (quantized or name != "s")}
    made = make_model(nodes, {"x": (1, 4, 6, 6)}, {"y": (1, 5)}, stored)
    if quantized:
        made.graph.initializer.append(constant("z", 0, onnx.TensorProto.INT8))
    return Model(made)


def faults(quantized: Model, baseline: Model, rounded: dict[str, float] | None = None) -> list[str]:
    index, plain = ModelIndex.of(baseline), ModelIndex.of(strip_from(quantized).model)
    before = {after: each for each, after in match(index.view, plain.view)[0].items()}
    found = ConstantFaults(ModelIndex.of(quantized), index, rounded or {}, SAMPLES, 2.0)
    return [text for _, text in found.of(list(other_constants(before, plain, index)), before)]


def test_equal_constants_are_no_faults() -> None:
    assert faults(model(quantized=True), model(quantized=False)) == []


@pytest.mark.parametrize("name", ["b", "added"])
def test_a_bias_may_change_by_twice_the_error_of_its_layer(name: str) -> None:
    """Each error of the Conv is a sum of 36 roundings of 0.05 / sqrt(12), times weights of 1/4: 0.022."""
    array = B if name == "b" else ADDED
    small, large = array.copy(), array.copy()
    small[2] += np.float32(0.01)
    large[2] += np.float32(0.2)
    assert faults(model(quantized=True, **{name: small}), model(quantized=False)) == []
    (fault,) = faults(model(quantized=True, **{name: large}), model(quantized=False))
    node = "Conv 'conv'" if name == "b" else "Add 'add'"
    pair = f"{large[2]:.4g} for {array[2]:.4g} at [2]"
    assert fault == f"'{name}' at {node}: 1 of {array.size} elements are not the baseline's, such as {pair}"


@pytest.mark.parametrize(
    ("name", "written_by_us", "count"), [("b", False, 0), ("b", True, 1), ("b_corrected", True, 0)]
)
def test_a_correction_of_quantize_has_a_new_name(name: str, written_by_us: bool, count: int) -> None:
    small = B.copy()
    small[2] += np.float32(0.01)
    changed = model(quantized=True, b=small)
    (tensor,) = (each for each in changed.proto.graph.initializer if each.name == "b")
    (conv,) = (node for node in changed.proto.graph.node if node.op_type == "Conv")
    tensor.name = conv.input[2] = name
    if written_by_us:
        changed.proto.metadata_props.add(key=CALIBRATION_KEY, value="{}")
    assert len(faults(changed, model(quantized=False))) == count


def test_the_limit_is_twice_the_error() -> None:
    """The oracle computes the error of the layer with NumPy from the outputs of both models."""
    import onnxruntime

    runs = []
    for each in (model(quantized=True), model(quantized=False)):
        session = onnxruntime.InferenceSession(each.proto.SerializeToString(), providers=["CPUExecutionProvider"])
        runs.append(np.concatenate([session.run(None, sample)[0] for sample in SAMPLES]).astype(np.float64))
    squares = np.square(runs[0] - runs[1])
    # Each sample has at least the mean over its channels.
    limit = 2 * np.sqrt(np.mean(np.maximum(squares, squares.mean(axis=1, keepdims=True)), axis=0))
    for factor, count in ((0.99, 0), (1.01, 1)):
        changed = ADDED.copy()
        changed[3] += np.float32(limit[3] * factor)
        assert len(faults(model(quantized=True, added=changed), model(quantized=False))) == count


def test_a_bias_that_the_baseline_lacks_counts_from_0() -> None:
    without = model(quantized=False, b=None)
    assert faults(model(quantized=True, b=np.full(6, 0.01, np.float32)), without) == []
    (fault,) = faults(model(quantized=True), without)
    assert fault.startswith("'b' at Conv 'conv': ")


@pytest.mark.parametrize(("share", "count"), [(1 / 15, 0), (1 / 13, 1)])
def test_a_weight_behind_a_dq_may_be_rounded_to_4_bits(share: float, count: int) -> None:
    """An optimizer folds the Q and DQ of a weight: it is within half of 7 steps then."""
    changed = W.copy()
    changed[1, 2, 0, 1] += np.float32(np.abs(W).max() * share)
    assert len(faults(model(quantized=True, w=changed), model(quantized=False))) == count
    assert len(faults(model(quantized=False, w=changed), model(quantized=False))) == 1


@pytest.mark.parametrize(("steps", "count"), [(1.0, 0), (1.01, 1)])
def test_a_weight_that_a_q_reads_may_be_one_step_off(steps: float, count: int) -> None:
    changed = W + np.float32(1)
    assert len(faults(model(quantized=True, w=changed), model(quantized=False), {"w": steps})) == count


def test_the_constants_of_the_baseline_take_their_places() -> None:
    quantized, baseline = model(quantized=True, b=B * 2, added=ADDED * 2), model(quantized=False)
    plain, index = ModelIndex.of(quantized), ModelIndex.of(baseline)
    before = {after: each for each, after in match(index.view, plain.view)[0].items()}
    others = list(other_constants(before, plain, index))
    assert [(each.node.label, each.index) for each in others] == [("conv", 2), ("add", 1)]
    np.testing.assert_array_equal(others[0].change, B.astype(np.float64))
    changed = with_constants(plain, others).proto.graph
    stored = {each.name: numpy_helper.to_array(each) for each in changed.initializer}
    (conv,) = (node for node in changed.node if node.op_type == "Conv")
    np.testing.assert_array_equal(stored[conv.input[2]], B)
