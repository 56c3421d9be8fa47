"""A plan is made for the model as it is; where its opset has to be raised, the pairs stand on the same tensors."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from support.qdq import text_model
from support.small import make_model, nodes_of

from qdqtool.errors import ModelError
from qdqtool.jobs.insert import insert_plan
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.insertion.apply_plan import carry_over

X = np.random.default_rng(5).normal(size=(2, 3, 4)).astype(np.float32)
SCALE = 1e-3


def softmax_model() -> onnx.ModelProto:
    """Opset 11: the Softmax flattens its input, and a Neg reads the same tensor."""
    nodes = nodes_of("[abs] a = Abs (x)  [softmax] s = Softmax <axis = 1> (a)  [neg] n = Neg (a)")
    return make_model(nodes, {"x": X.shape}, {"s": X.shape, "n": X.shape}, {}, opset=11)


def inserted(folder: Path, **keys: object) -> onnx.ModelProto:
    onnx.save(softmax_model(), folder / "m.onnx")
    entry = {"tensor": "a", "format": "int16", "scale": SCALE, **keys}
    (folder / "p.json").write_text(json.dumps({"schema_version": 1, "tensors": [entry]}))
    report = insert_plan(folder / "m.onnx", folder / "p.json", folder / "q.onnx")
    assert (report.opset_before, report.opset_after) == (11, 21)
    return onnx.load(folder / "q.onnx")


def readers(model: onnx.ModelProto, tensor: str) -> list[str]:
    return [node.op_type for node in model.graph.node if tensor in node.input]


def rounded() -> np.ndarray:
    return (np.rint(np.abs(X) / np.float32(SCALE)) * np.float32(SCALE)).astype(np.float32)


def test_nodes_that_the_upgrade_puts_in_front_of_a_reader_read_the_pair(tmp_path):
    model = inserted(tmp_path, consumers=["softmax"])
    assert readers(model, "a") == ["QuantizeLinear", "Neg"]
    assert {"Flatten", "Reshape"} <= {node.op_type for node in model.graph.node}
    s, n = ReferenceEvaluator(model).run(None, {"x": X})
    flat = np.exp(rounded().reshape(2, 12))
    np.testing.assert_allclose(s, (flat / flat.sum(axis=1, keepdims=True)).reshape(X.shape), rtol=1e-5)
    assert n.tobytes() == (-np.abs(X)).tobytes()


def test_a_reader_that_the_upgrade_keeps_is_the_only_one(tmp_path):
    model = inserted(tmp_path, consumers=["neg"])
    assert readers(model, "a_DequantizeLinear_Output") == ["Neg"]


def test_a_glob_means_the_tensors_of_the_model_that_was_given(tmp_path):
    model = inserted(tmp_path, tensor="*")
    quantized = [node.input[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    assert sorted(quantized) == ["a", "n_float", "s_float", "x"]


def test_a_tensor_without_readers_is_refused():
    before, after = GraphView(Model(softmax_model())), GraphView(Model(softmax_model()))
    params = QuantParams(QuantScheme(formats.get("int8"), PerTensor()), np.float32(1))
    plan = QuantPlan((Placement(Slot((), "a", (UseRef((), ("gone",), 0),)), params, "a test"),))
    with pytest.raises(ModelError, match="no node reads tensor 'a' after the opset is raised to 11"):
        carry_over(plan, before, after)


def carried(before: str, after: str, *uses: tuple[str, int]) -> list[tuple[str, int]]:
    """The uses of ``a`` in the second graph, of a plan for those in the first: outputs of nodes, and input numbers."""
    views = [GraphView(text_model(f'<ir_version: 8, opset_import: ["": 13]> {each}')) for each in (before, after)]
    params = QuantParams(QuantScheme(formats.get("int8"), PerTensor()), np.float32(1))
    chosen = tuple(UseRef((), (output,), index) for output, index in uses)
    plan = QuantPlan((Placement(Slot((), "a", chosen), params, "a test"),))
    (place,) = carry_over(plan, *views)
    return [(use.node[0], use.index) for use in place.slot.uses or ()]


TWO = "g (float[2] x) => (float[2] s, float[2] n) {{ a = Abs(x) {} }}"


@pytest.mark.parametrize(
    ("before", "after", "uses", "expected"),
    [
        ("s = Exp(a) n = Neg(a)", "s = Exp(a) n = Neg(a)", [("n", 0), ("s", 0)], [("n", 0), ("s", 0)]),
        ("s = Exp(a) n = Neg(a)", "f = Cos(a) s = Exp(f) n = Neg(a)", [("s", 0), ("n", 0)], [("n", 0), ("f", 0)]),
        ("s = Exp(a) n = Neg(a)", "f = Cos(a) h = Sin(f) s = Exp(h) n = Neg(a)", [("s", 0)], [("f", 0)]),
        ("s = Exp(a) n = Neg(a)", "f = Cos(a) h = Sin(a) s = Exp(f) n = Neg(h)", [("s", 0)], [("f", 0)]),
        ("s = Exp(a) n = Neg(a)", "f = Cos(a) h = Sin(a) s = Exp(f) n = Neg(h)", [("n", 0)], [("h", 0)]),
        ("s = Add(a, a) n = Neg(a)", "f = Cos(a) s = Add(f, a) n = Neg(a)", [("s", 0)], [("f", 0)]),
        ("s = Add(a, a) n = Neg(a)", "f = Cos(a) s = Add(f, a) n = Neg(a)", [("s", 0), ("s", 1)], [("s", 1), ("f", 0)]),
        ("n = Neg(a) s = Add(a, n)", "h = Sin(a) n = Neg(h) f = Cos(a) s = Add(f, n)", [("s", 0)], [("f", 0)]),
        ("s = Exp(a) n = Neg(a)", "f = Cos(a) s = Exp(f) n = Neg(a)", [], []),
        ("n = Neg(x) s = Exp(a)", "n = Neg(x) f, h = Split(a) k = Add(h, f) s = Exp(k)", [("s", 0)], [("f", 0)]),
    ],
)
def test_the_new_nodes_in_front_of_chosen_readers_and_no_others(
    before: str, after: str, uses: list[tuple[str, int]], expected: list[tuple[str, int]]
) -> None:
    assert carried(TWO.format(before), TWO.format(after), *uses) == expected
