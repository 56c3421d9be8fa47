"""Apply a plan: in which opset, and what is told of each pair."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from support.small import make_model, matmul_model, nodes_of

from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.insertion.apply_plan import apply_plan, needed_opset
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
