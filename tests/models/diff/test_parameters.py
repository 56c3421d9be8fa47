"""The differences between two steps: what is called different, how it is spelled, and what makes no difference."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.qdq import constant

from qdqtool.models.diff.matching import QdqStep, Side
from qdqtool.models.diff.parameters import Change, changes, form, granularity_name, is_weight, kind
from qdqtool.models.graph.model import Model
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

INT8, UINT8, FLOAT = TensorProto.INT8, TensorProto.UINT8, TensorProto.FLOAT
SHAPE = (2, 4)
CODES = [[1, -2, 3, -4], [5, 6, -7, 8]]

Found = tuple[Side, QdqStep]


def step(
    *,
    data: object = CODES,
    scale: object = 0.5,
    zero: object = None,
    q_scale: object = "scale",
    storage: str = "codes",
    code_type: int = INT8,
    scale_type: int = FLOAT,
    ranks: bool = True,
    input_shape: tuple[int, ...] = SHAPE,
    result_shape: tuple[int, ...] | None = None,
    missing: bool = False,
    **attributes: int,
) -> Found:
    """A Q/DQ step whose result nothing but an output reads.

    Args:
        data: Stored codes or floats; None for an input of the graph.
        scale: None for an input.
        zero: None for none, "input" for an input.
        q_scale: The scale of the Q, where it is another.
        storage: ``codes`` for a DQ alone, ``floats`` for a Q and a DQ, ``q`` for a Q alone.
        code_type: Type of the codes.
        scale_type: Type of the scale.
        ranks: Whether the ranks of inputs are known.
        input_shape: The shape of inputs.
        result_shape: The shape of the result, where the file says it.
        missing: Whether the file with the data is not there.
        attributes: Of Q and DQ.
    """
    inputs, stored = [], []

    def give(name: str, values: object, elem_type: int) -> str:
        if values is None or values == "input":
            inputs.append(helper.make_tensor_value_info(name, elem_type, input_shape if ranks else None))
        else:
            stored.append(constant(name, values, elem_type))
        return name

    source = give("w", data, code_type if storage == "codes" else FLOAT)
    rest = [give("s", scale, scale_type), *([give("z", zero, code_type)] if zero is not None else [])]
    before = [give("qs", q_scale, scale_type), *rest[1:]] if q_scale != "scale" else rest
    kind_of_q = {"output_dtype": code_type} if zero is None else {}
    quantizer = helper.make_node("QuantizeLinear", [source, *before], ["q"], **attributes, **kind_of_q)
    dequantizer = helper.make_node("DequantizeLinear", ["w" if storage == "codes" else "q", *rest], ["d"], **attributes)
    nodes = {"codes": [dequantizer], "floats": [quantizer, dequantizer], "q": [quantizer]}[storage]
    made = nodes[-1].output[0]
    outputs = (
        [helper.make_tensor_value_info(made, FLOAT, result_shape)] if result_shape else [onnx.ValueInfoProto(name=made)]
    )
    if missing:
        (weight,) = (each for each in stored if each.name == "w")
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="w.bin")
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    side = Side(Model(proto, missing_data=frozenset({"w.bin"} if missing else ())))
    (found,) = side.steps(side.index.view.main.values[made])[0]
    return side, found


def differences(first: Found, second: Found) -> tuple[Change, ...]:
    return changes(*first, *second)


BLOCKS = {"axis": 1, "block_size": 2, "scale": [[0.5, 1], [2, 4]]}
AXIS = {"axis": 1, "scale": [0.5, 1, 2, 4]}
FLOATS = (np.array(CODES) * 0.5).tolist()
MORE_CODES = [*CODES, [1, 1, 1, 1]]

SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an axis from the end": (AXIS, AXIS | {"axis": -1}),
    "a block along an axis from the end": (BLOCKS, BLOCKS | {"axis": -1}),
    "an axis that one scale does not need": ({"axis": 0}, {"axis": 1}),
    "a scale of rank 0 or 1": ({"scale": 0.5}, {"scale": [0.5]}),
    "a scale of another float type": ({"scale": 0.5}, {"scale": 0.5, "scale_type": TensorProto.FLOAT16}),
    "scales that are NaN": ({"scale": np.nan}, {"scale": np.nan}),
    "a zero point of 0 or none": ({"zero": 0}, {}),
    "zero points of 0 or one": ({"zero": [0, 0, 0, 0]} | AXIS, {"zero": 0} | AXIS),
    "computed scales": ({"scale": None}, {"scale": None}),
    "computed zero points": ({"zero": "input"}, {"zero": "input"}),
    "floats behind Q and DQ for codes": ({}, {"data": FLOATS, "storage": "floats"}),
    "floats that are rounded to the same codes": (
        {"data": FLOATS, "storage": "floats"},
        {"data": (np.array(CODES) * 0.5 + 0.1).tolist(), "storage": "floats"},
    ),
    "codes of NaN": ({"data": [np.nan], "code_type": TensorProto.FLOAT8E4M3FN},) * 2,
    "a scale of rank 1 of floats and of codes": (
        {"scale": [0.5], "zero": [0], "data": FLOATS, "storage": "floats"},
        {},
    ),
    "activations of any kind": ({"data": None, "storage": "floats"}, {"data": None, "storage": "floats"}),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_the_same(name: str) -> None:
    first, second = (step(**keys) for keys in SAME[name])
    assert differences(first, second) == differences(second, first) == ()


DIFFERENT: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[Any, ...]]]] = {
    "type": ({"data": [1]}, {"data": [1], "code_type": UINT8}, [("type", "int8", "uint8")]),
    "granularity": ({}, AXIS, [("granularity", "per-tensor", "per-axis"), ("scale", "shape []", "shape [4]")]),
    "blocks": (AXIS, BLOCKS, [("granularity", "per-axis", "blocked"), ("scale", "shape [4]", "shape [2, 2]")]),
    "axis": ({"axis": 0, "scale": [1, 2]}, {"axis": 1, "scale": [1, 2]}, [("axis", "0", "1")]),
    "axis from the end": ({"axis": 0, "scale": [1, 2]}, {"axis": -1, "scale": [1, 2]}, [("axis", "0", "1")]),
    "block size": (BLOCKS | {"block_size": 2}, BLOCKS | {"block_size": 3}, [("block_size", "2", "3")]),
    "scale": ({"scale": 0.5}, {"scale": 1.25}, [("scale", "0.5", "1.25", (2.5, 2.5))]),
    "scale of rank 1": ({"scale": 0.5}, {"scale": [0.25]}, [("scale", "0.5", "0.25", (0.5, 0.5))]),
    "one of the scales": (AXIS, AXIS | {"scale": [0.5, 0.5, 6, 4]}, [("scale", "0.5 to 4", "0.5 to 6", (0.5, 3.0))]),
    "a scale that is NaN": ({"scale": [1, np.nan], "axis": 0}, {"scale": [1, 2], "axis": 0}, None),
    "a computed scale": (
        {"scale": None},
        {"scale": [0.5, 2, 1, 1]},
        [("granularity", "unknown", "per-axis"), ("scale", "computed", "0.5 to 2")],
    ),
    "zero point": ({}, {"zero": 3}, [("zero_point", "0", "3")]),
    "one of the zero points": (
        AXIS | {"zero": [0, 0, 0, 0]},
        AXIS | {"zero": [0, -1, 0, 2]},
        [("zero_point", "0", "-1 to 2")],
    ),
    "a computed zero point": ({"zero": "input"}, {"zero": 3}, [("zero_point", "computed", "3")]),
    "a computed zero point for none": ({}, {"zero": "input"}, [("zero_point", "0", "computed")]),
    "zero points of other shapes": ({"zero": [0, 0, 0]}, {"zero": [0, 0]}, [("zero_point", "0", "0")]),
    "codes": ({}, {"data": [[1, -2, 3, 0], [5, 6, 0, 8]]}, [("codes", "8 codes", "2 of them differ")]),
    "shape of codes": ({}, {"data": MORE_CODES}, [("codes", "shape [2, 4]", "shape [3, 4]")]),
    "codes of floats": (
        {},
        {"data": (np.array(FLOATS) + np.array([0.5, 0, 0, 0])).tolist(), "storage": "floats"},
        [("codes", "8 codes", "2 of them differ")],
    ),
    "floats": (
        {"data": FLOATS, "storage": "floats"},
        {"data": [*FLOATS[:1], [0, 0, 0, 0]], "storage": "floats"},
        [("codes", "8 codes", "4 of them differ")],
    ),
    "a weight and an input": ({}, {"data": None}, [("form", "weight", "DQ alone")]),
    "an input and a pair": ({"data": None}, {"data": None, "storage": "floats"}, [("form", "DQ alone", "pair")]),
    "a Q alone": ({"data": None, "storage": "q"}, {"data": None, "storage": "floats"}, [("form", "Q alone", "pair")]),
    "a Q alone of a weight": ({"data": FLOATS, "storage": "q"}, {"data": FLOATS, "storage": "floats"}, None),
    "scale of the Q alone": (
        {"data": None, "storage": "floats"},
        {"data": None, "storage": "floats", "q_scale": 1},
        [("scale", "0.5", "1", (2.0, 2.0))],
    ),
    "scale of both": (
        {"data": None, "storage": "floats"},
        {"data": None, "storage": "floats", "scale": 2, "q_scale": 1},
        [("scale", "0.5", "2", (4.0, 4.0))],
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_is_different(name: str) -> None:
    one, other, expected = DIFFERENT[name]
    first, second = step(**one), step(**other)
    if expected is None:
        assert len(differences(first, second)) == 1
        return
    assert differences(first, second) == tuple(Change(*each) for each in expected)
    assert [(each.what, each.before, each.after) for each in differences(second, first)] == [
        (each[0], "8 codes", each[2]) if "differ" in each[2] else (each[0], each[2], each[1]) for each in expected
    ]


def test_scales_that_differ_leave_codes_unread() -> None:
    found = differences(step(), step(scale=2, data=MORE_CODES))
    assert [each.what for each in found] == ["scale"]


def test_a_scale_of_another_shape_has_no_ratio() -> None:
    assert [each.ratio for each in differences(step(), step(**AXIS))] == [None, None]


def test_codes_that_cannot_be_computed_are_unknown() -> None:
    broken = step(data=FLOATS, storage="floats", scale=[0.5, 1, 2], axis=1)
    other = step(data=CODES, scale=[0.5, 1, 2], axis=1)
    assert differences(broken, other) == (Change("codes", "unknown", "8 codes"),)
    assert differences(other, broken) == (Change("codes", "8 codes", "unknown"),)
    assert differences(broken, broken) == ()


def test_a_negative_axis_of_an_unknown_rank_stays_as_written() -> None:
    one = step(data=None, ranks=False, axis=-1, scale=[1, 2])
    other = step(data=None, ranks=False, axis=1, scale=[1, 2])
    assert differences(one, other) == (Change("axis", "-1", "1"),)


def test_the_rank_of_the_result_is_that_of_the_codes() -> None:
    keys = {"data": None, "ranks": False, "scale": [1, 2, 3, 4], "result_shape": SHAPE}
    assert differences(step(**keys, axis=-1), step(**keys, axis=1)) == ()
    keys = {"data": None, "scale": [1, 2, 3, 4]}
    assert differences(step(**keys, axis=-1), step(**keys, axis=1)) == ()


def test_an_axis_outside_is_told_as_written() -> None:
    one, other = (step(axis=axis, scale=[1, 2, 3, 4]) for axis in (3, 1))
    assert differences(one, other) == (Change("axis", "3", "1"),)


@pytest.mark.parametrize("storage", ["codes", "floats"])
def test_codes_of_data_that_is_missing_are_unknown(storage: str) -> None:
    there, gone = step(), step(storage=storage, data=FLOATS if storage == "floats" else CODES, missing=True)
    assert differences(gone, there) == (Change("codes", "unknown", "8 codes"),)
    assert differences(there, gone) == (Change("codes", "8 codes", "unknown"),)
    assert differences(gone, gone) == ()


def test_weights_of_the_same_bytes_and_other_shapes_are_different() -> None:
    """As after a Reshape that was folded."""
    rows = step(data=FLOATS, storage="floats")
    columns = step(data=np.reshape(FLOATS, (4, 2)).tolist(), storage="floats")
    assert differences(rows, columns) == (Change("codes", "shape [2, 4]", "shape [4, 2]"),)


def test_a_q_that_reads_a_constant_now_has_codes_that_were_unknown() -> None:
    computed, stored = step(data=None, storage="q"), step(data=FLOATS, storage="q")
    assert differences(computed, stored) == (Change("codes", "unknown", "8 codes"),)
    assert differences(stored, computed) == (Change("codes", "8 codes", "unknown"),)


@pytest.mark.parametrize(
    "keys", [{"zero": "input"}, {"scale": None}, {"scale": None, "input_shape": ()}, {"scale": [[0.5, 1, 2, 4]]}]
)
def test_codes_of_constants_that_cannot_be_used_are_unknown(keys: dict[str, Any]) -> None:
    floats, codes = step(data=FLOATS, storage="floats", **keys), step(**keys)
    assert differences(floats, codes) == (Change("codes", "unknown", "8 codes"),)


def test_an_empty_scale_has_no_span() -> None:
    computed, empty = (step(data=None, scale=scale, input_shape=(0,), axis=0) for scale in (None, []))
    assert differences(computed, empty)[-1] == Change("scale", "computed", "empty")


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.data())
def test_the_differences_are_those_of_the_constants(data: st.DataObject) -> None:
    """Per tensor, with one or more codes, scales and zero points changed at random."""

    def constants() -> dict[str, Any]:
        small = st.integers(-2, 2)
        return {
            "data": data.draw(st.lists(small, min_size=3, max_size=3)),
            "scale": data.draw(st.sampled_from([0.5, 1.0])),
            "zero": data.draw(st.sampled_from([None, 0, 1])),
            "code_type": data.draw(st.sampled_from([INT8, TensorProto.INT16])),
        }

    one, other = constants(), constants()
    found = differences(step(**one), step(**other))
    expected = {
        *(["type"] if one["code_type"] != other["code_type"] else []),
        *(["scale"] if one["scale"] != other["scale"] else []),
        *(["zero_point"] if (one["zero"] or 0) != (other["zero"] or 0) else []),
    } or ({"codes"} if one["data"] != other["data"] else set())
    assert {each.what for each in found} == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize(
    ("granularity", "name"),
    [(PerTensor(), "per-tensor"), (PerAxis(1), "per-axis"), (Blocked(0, 2), "blocked"), (None, "unknown")],
)
def test_names_of_granularities(granularity: object, name: str) -> None:
    assert granularity_name(granularity) == name


@pytest.mark.parametrize(
    ("keys", "name", "weight"),
    [
        ({}, "weight", True),
        ({"storage": "floats"}, "weight", True),
        ({"storage": "q"}, "Q alone", True),
        ({"data": None}, "DQ alone", False),
        ({"data": None, "storage": "floats"}, "pair", False),
        ({"data": None, "storage": "q"}, "Q alone", False),
    ],
)
def test_names_of_forms(keys: dict[str, Any], name: str, weight: bool) -> None:
    side, found = step(**keys)
    assert (form(side, found), is_weight(side, found), kind(found.main)) == (name, weight, "int8")


def test_codes_of_more_than_a_byte_are_counted_once() -> None:
    first = step(data=[300, 1, 2], code_type=TensorProto.INT16)
    second = step(data=[557, 1, 2], code_type=TensorProto.INT16)
    assert differences(first, second) == (Change("codes", "3 codes", "1 of them differ"),)
