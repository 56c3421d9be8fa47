"""Apply a plan: in which opset, what is told of each pair, and where the pairs stand."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from support.qdq import text_model
from support.small import make_model, matmul_model, nodes_of

from qdqtool.errors import ModelError
from qdqtool.jobs.insert import insert_plan
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.insertion.apply_plan import apply_plan, carry_over, needed_opset
from qdqtool.quantization.report import QuantizedTensor

ONE = np.float32(1)
HALF = np.float16(1)
BF16 = ml_dtypes.bfloat16(1)


def placement(
    tensor: str,
    format_name: str = "int8",
    granularity: Granularity | None = None,
    scale: object = ONE,
    uses: tuple[UseRef, ...] | None = None,
) -> Placement:
    scheme = QuantScheme(formats.get(format_name), granularity or PerTensor())
    return Placement(Slot((), tensor, uses), QuantParams(scheme, np.asarray(scale)), "a test")


def two_level(scale: object, scale_format: str, outer: object | None) -> Placement:
    """Codes of int8 in blocks, whose scales have a format of their own, with a scale of them or without."""
    scheme = QuantScheme(formats.get("int8"), Blocked(0, 2), scale_scheme=_alone(scale_format))
    of_scale = QuantParams(_alone(scale_format), np.asarray(outer)) if outer is not None else None
    return Placement(Slot((), "w"), QuantParams(scheme, np.asarray(scale), scale_params=of_scale), "a test")


def _alone(name: str) -> QuantScheme:
    return QuantScheme(formats.get(name), PerTensor())


@pytest.mark.parametrize(
    ("place", "opset"),
    [
        (placement("w", "int32"), 1),
        (placement("w", "int32", PerAxis(0)), 13),
        (placement("w", "int8"), 10),
        (placement("w", "int8", scale=HALF), 19),
        (placement("w", "int8", scale=BF16), 19),
        (placement("w", "int8", PerAxis(1), np.ones(4, np.float32)), 13),
        (placement("w", "int8", PerAxis(1), np.ones(4, np.float16)), 19),
        (placement("w", "int8", Blocked(0, 2), np.ones((2, 4), np.float32)), 21),
        (placement("w", "float8e4m3fn"), 19),
        (placement("w", "int4", PerAxis(0)), 21),
        (placement("w", "float4e2m1"), 23),
        (two_level(ONE, "float8e4m3fn", ONE), 21),
        (two_level(HALF, "float8e4m3fn", HALF), 21),
        (two_level(HALF, "float8e4m3fn", ONE), 23),
        (two_level(ONE, "float4e2m1", ONE), 23),
        (two_level(ml_dtypes.float8_e8m0fnu(1), "float8e8m0", None), 24),
    ],
)
def test_the_lowest_opset_of_a_pair(place: Placement, opset: int) -> None:
    assert needed_opset(place) == opset


@pytest.mark.parametrize(
    ("before", "places", "after"),
    [
        (13, [placement("x"), placement("w", "int8", PerAxis(1), np.ones(6, np.float32))], 13),
        (12, [placement("x"), placement("w", "int8", PerAxis(1), np.ones(6, np.float32))], 13),
        (12, [placement("x", "float8e4m3fn"), placement("w", "int4", PerAxis(1), np.ones(6, np.float32))], 21),
        (12, [placement("x", "int4"), placement("w", "float8e4m3fn")], 21),
        (22, [placement("x", "int4")], 22),
    ],
)
def test_the_opset_rises_to_what_every_pair_needs(before: int, places: list[Placement], after: int) -> None:
    result = apply_plan(Model(matmul_model(before)), QuantPlan(tuple(places)))
    assert [each.version for each in result.model.proto.opset_import] == [after]


def three_readers() -> onnx.ModelProto:
    nodes = nodes_of("[square] a = Mul (x, x)  [exp] b = Exp (x)  [product] c = MatMul (a, w)")
    return make_model(
        nodes, {"x": (4, 4)}, {"b": (4, 4), "c": (4, 4)}, {"w": np.eye(4, dtype=np.float32)}, opset=21, ir_version=10
    )


def test_each_pair_is_told_with_its_scales_and_readers() -> None:
    chosen = (UseRef((), ("b",), 0), UseRef((), ("a",), 1))
    plan = QuantPlan(
        (
            placement("x", uses=chosen),
            placement("a", "uint8", scale=np.float32(0.5)),
            placement("w", "int4", PerAxis(1), np.array([0.5, 0.125, 4, 2], np.float32)),
        )
    )
    columns = ("tensor", "kind", "format", "granularity", "scales", "scale_min", "scale_max", "consumers")
    rows = (
        ("x", "activation", "int8", "per-tensor", 1, 1, 1, ("exp", "square")),
        ("a", "activation", "uint8", "per-tensor", 1, 0.5, 0.5, ("product",)),
        ("w", "weight", "int4", str(PerAxis(1)), 4, 0.125, 4, ("product",)),
    )
    assert apply_plan(Model(three_readers()), plan).report == tuple(
        QuantizedTensor(graph="", reason="a test", **dict(zip(columns, row, strict=True))) for row in rows
    )


@pytest.mark.parametrize(("uses", "consumers"), [(None, ("square", "exp")), ((), ())])
def test_all_readers_or_none(uses: tuple[UseRef, ...] | None, consumers: tuple[str, ...]) -> None:
    """A node that reads a tensor twice is told once."""
    (told,) = apply_plan(Model(three_readers()), QuantPlan((placement("x", uses=uses),))).report
    assert told.consumers == consumers


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
