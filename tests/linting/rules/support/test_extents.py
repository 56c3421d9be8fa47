"""How far numbers are off, as baselines compare it, and the first opset of each feature of Q and DQ."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

from qdqtool.linting.findings import Extent
from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.extents import (
    FARTHEST,
    FIRST_OPSET_OF_ATTRIBUTE,
    needs,
    octaves,
    of_values,
    reads_axis_1,
)
from qdqtool.models import targets
from qdqtool.models.graph.model import Model
from qdqtool.numerics import formats


@pytest.mark.parametrize(
    ("value", "wanted", "off"),
    [
        (0.5, 0.5, 0.0),
        (2.0, 0.5, 2.0),
        (0.5, 2.0, 2.0),
        (-0.5, -2.0, 2.0),
        (np.nan, np.nan, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.5, FARTHEST),
        (0.5, 0.0, FARTHEST),
        (-0.5, 0.5, FARTHEST),
        (np.nan, 0.5, FARTHEST),
        (np.inf, 0.5, FARTHEST),
        (np.inf, np.inf, 0.0),
        (5e-324, 1e308, pytest.approx(2097.1, abs=0.1)),
    ],
)
def test_octaves(value: float, wanted: float, off: float):
    assert octaves(np.array([value]), np.array([wanted])).tolist() == [off]


def test_an_extent_has_the_number_and_the_worst_of_what_is_wrong():
    bad = np.array([[True, False], [True, True]])

    assert of_values("scale", bad, np.array([[1.0, 9.0], [3.0, 2.0]])) == Extent("scale", 3, 3.0)
    assert of_values("scale", bad) == Extent("scale", 3, 0.0)
    assert of_values("scale", bad, np.inf) == Extent("scale", 3, FARTHEST)


@pytest.mark.parametrize(
    ("now", "known", "worse"),
    [
        (Extent("", 1, 1.0), Extent("", 1, 1.0), False),
        (Extent("", 2, 1.0), Extent("", 1, 1.0), True),
        (Extent("", 1, 1.09), Extent("", 1, 1.0), False),
        (Extent("", 1, 1.2), Extent("", 1, 1.0), True),
        (Extent("", 1, 0.5), Extent("", 3, 1.0), False),
        (Extent("", 1, 2.0), Extent("", 3, 1.0), True),
    ],
)
def test_worse_is_more_or_over_a_tenth_farther(now: Extent, known: Extent, worse: bool):
    assert now.is_worse_than(known) == worse


Q, DQ = "QuantizeLinear", "DequantizeLinear"
NEWEST = 25
TYPES = {fmt.name: fmt.onnx_type for fmt in map(formats.get, formats.names()) if not fmt.name.startswith("float6")}


def first(op_type: str, has: Callable[[onnx.defs.OpSchema], bool]) -> int:
    """The first opset whose definition of an operator has something."""
    schemas = (onnx.defs.get_schema(op_type, opset) for opset in range(10, NEWEST + 1))
    return next(opset for opset, schema in enumerate(schemas, 10) if has(schema))


def takes(schema: onnx.defs.OpSchema, index: int, name: str) -> bool:
    return f"tensor({name})" in schema.inputs[index].types


def features(
    op_type: str,
    kind: int = T.INT8,
    scale: tuple[int, list[int] | None] = (T.FLOAT, []),
    domain: str = "",
    **attributes: object,
) -> dict[str, int]:
    context = context_of(op_type, kind, scale, domain, **attributes)
    return dict(needs(context, context.qdq.nodes[0]))


def context_of(
    op_type: str,
    kind: int = T.INT8,
    scale: tuple[int, list[int] | None] = (T.FLOAT, []),
    domain: str = "",
    opset: int = NEWEST,
    **attributes: object,
) -> RuleContext:
    """A Q or DQ of a type that reads inputs."""
    node = helper.make_node(op_type, ["x", "s", "z"], ["y"], domain=domain, **attributes)
    x = helper.make_tensor_value_info("x", T.FLOAT if op_type == Q else kind, [4, 4])
    inputs = [x, helper.make_tensor_value_info("s", *scale), helper.make_tensor_value_info("z", kind, scale[1])]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return RuleContext(Model(helper.make_model(graph, opset_imports=imports, ir_version=10)))


@pytest.mark.parametrize("op_type", [Q, DQ])
@pytest.mark.parametrize("name", TYPES)
def test_types_of_codes(op_type: str, name: str):
    index = 2 if op_type == Q else 0

    found = features(op_type, TYPES[name])

    # Nothing is quantized to int32, and e8m0 is a type of scales alone.
    newest = onnx.defs.get_schema(op_type, NEWEST)
    known = first(op_type, lambda schema: takes(schema, index, name)) if takes(newest, index, name) else 10
    assert found == {"Q/DQ": 10, name: known, "a float32 scale": 10}


@pytest.mark.parametrize("op_type", [Q, DQ])
@pytest.mark.parametrize("name", ["float", "float16", "bfloat16", "float8e8m0"])
def test_types_of_scales(op_type: str, name: str):
    words = "float32" if name == "float" else name

    found = features(op_type, scale=(getattr(T, name.upper()), []))

    assert found[f"a {words} scale"] == first(op_type, lambda schema: takes(schema, 1, name))


@pytest.mark.parametrize("op_type", [Q, DQ])
def test_attributes(op_type: str):
    known = onnx.defs.get_schema(op_type, NEWEST).attributes
    assert set(FIRST_OPSET_OF_ATTRIBUTE[op_type]) == set(known)
    for name in known:
        found = features(op_type, **{name: 1})
        assert found[f"attribute {name}"] == first(op_type, lambda schema, name=name: name in schema.attributes)


def test_an_attribute_that_no_opset_has_needs_none():
    assert features(DQ, saturate=1)["attribute saturate"] == 10


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ([], None),
        ([1], None),
        (None, None),
        ([4], "per-axis scales"),
        ([1, 1], "block scales"),
        ([4, 2], "block scales"),
        ([1, 4, 2], "block scales"),
    ],
)
def test_shapes_of_scales(shape: list[int] | None, words: str | None):
    found = features(DQ, scale=(T.FLOAT, shape))

    attribute = {"per-axis scales": "axis", "block scales": "block_size"}
    expected = {words: first(DQ, lambda schema: attribute[words] in schema.attributes)} if words else {}
    assert {name: opset for name, opset in found.items() if name.endswith("scales")} == expected


@pytest.mark.parametrize(
    ("target", "domain", "opset", "reads"),
    [
        ("ort-cpu", "", 12, True),
        ("ort-cpu", "", 13, False),
        ("ort-cpu", "com.microsoft", 12, False),
        ("tensorrt", "", 12, False),
        ("onnx", "", 12, False),
    ],
)
def test_onnx_runtime_reads_several_scales_of_old_opsets_on_axis_1(target: str, domain: str, opset: int, reads: bool):
    context = context_of(DQ, scale=(T.FLOAT, [4]), domain=domain, opset=opset)

    assert reads_axis_1(context.qdq.nodes[0], targets.get(target)) == reads
