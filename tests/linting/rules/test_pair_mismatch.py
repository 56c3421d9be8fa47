"""A Q and the DQ behind it are compared constant by constant, whatever form each of them has."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from qdqtool.jobs.validate import validate_model
from qdqtool.linting.findings import Extent
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model

Constant = float | list[float] | list[list[float]] | None


def tensor(name: str, values: Constant, elem_type: int) -> list[onnx.TensorProto]:
    return [] if values is None else [make_tensor(name, np.asarray(values, np.float64), elem_type)]


def pair(scales: tuple[Constant, Constant], zeros: tuple[Constant, Constant] = (None, None), **attributes: object):
    """A pair over data [4, 4] with constants of its own on each side; attributes end in ``_q`` or ``_dq``."""
    nodes, stored = [], []
    for side, op_type, data, made, scale, zero in (
        ("q", "QuantizeLinear", "x", "c", scales[0], zeros[0]),
        ("dq", "DequantizeLinear", "c", "y", scales[1], zeros[1]),
    ):
        names = [data, f"s_{side}", *([f"z_{side}"] if zero is not None else [])]
        own = {name.removesuffix(f"_{side}"): value for name, value in attributes.items() if name.endswith(f"_{side}")}
        if side == "q" and zero is None:
            own["output_dtype"] = TensorProto.INT8
        nodes.append(helper.make_node(op_type, names, [made], side, **own))
        stored += tensor(f"s_{side}", scale, TensorProto.FLOAT) + tensor(f"z_{side}", zero, TensorProto.INT8)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def found(model: onnx.ModelProto) -> list[tuple[str, str | None]]:
    findings = validate_model(Model(model), ["onnx"]).findings
    return [(finding.message, finding.tensor) for finding in findings if finding.code == "QP106"]


def said(what: str, made: str, read: str) -> str:
    return f"{what} of this DQ is {read}, but the {what} of its Q 'q' is {made}"


@pytest.mark.parametrize(
    ("made", "read", "difference"),
    [
        (0.5, 0.5, None),
        (0.5, 0.25, ("0.5", "0.25")),
        (0.5, [0.5], None),
        ([0.5], 0.25, ("0.5", "0.25")),
        ([1, 2, 3, 4], [1, 2, 3, 4], None),
        ([1, 2, 3, 4], [1, 2, 3, 8], ("4 in channel 3", "8 in channel 3")),
        ([1, 2, 3, 4], [1, 4, 3, 8], ("2 in channel 1", "4 in channel 1 (and 1 more)")),
        ([1, 2, 3, 4], [2, 4, 6, 8], ("1 in channel 0", "2 in channel 0 (and 3 more)")),
        ([1, 2], [1, 3], ("2 in channel 1", "3 in channel 1")),
        (0.5, [0.5, 0.5, 0.5, 0.5], ("shape []", "shape [4]")),
        ([1, 2, 3, 4], [1, 2], ("shape [4]", "shape [2]")),
        ([1, 2, 3, 4], [[1, 2, 3, 4]], ("shape [4]", "shape [1, 4]")),
        (float("nan"), float("nan"), None),
        (float("nan"), 0.5, ("nan", "0.5")),
        (0.5, float("nan"), ("0.5", "nan")),
    ],
)
def test_scales(made: Constant, read: Constant, difference: tuple[str, str] | None):
    model = pair((made, read), axis_q=1, axis_dq=1)
    assert found(model) == ([(said("scale", *difference), "s_dq")] if difference else [])


@pytest.mark.parametrize(
    ("made", "read", "difference"),
    [
        (None, None, None),
        (0, None, None),
        (None, 0, None),
        ([0, 0, 0, 0], None, None),
        (None, [0, 0, 0, 0], None),
        (3, None, ("3", "0", "z_q")),
        (None, 3, ("0", "3", "z_dq")),
        ([0, 0, 5, 0], None, ("5 in channel 2", "0 in channel 2", "z_q")),
        (None, [0, 7, 5, 0], ("0 in channel 1", "7 in channel 1 (and 1 more)", "z_dq")),
        (3, 3, None),
        (3, 5, ("3", "5", "z_dq")),
        ([1, 2, 3, 4], [1, 2, 3, 5], ("4 in channel 3", "5 in channel 3", "z_dq")),
        (0, [0, 0, 0, 0], ("shape []", "shape [4]", "z_dq")),
    ],
)
def test_an_absent_zero_point_is_0(made: Constant, read: Constant, difference: tuple[str, str, str] | None):
    scale: Constant = [1, 1, 1, 1] if isinstance(made, list) or isinstance(read, list) else 1
    model = pair((scale, scale), (made, read), axis_q=1, axis_dq=1)
    expected = [(said("zero point", *difference[:2]), difference[2])] if difference else []
    assert found(model) == expected


def test_how_far_zero_points_and_scales_are_off():
    model = pair(([1, 2, 3, 4], [1, 2, 3, 1]), ([1, 2, 3, 4], [1, -5, 3, 5]), axis_q=1, axis_dq=1)
    extents = [finding.extent for finding in validate_model(Model(model), ["onnx"]).findings if finding.code == "QP106"]

    assert extents == [Extent("scale", 1, 2.0), Extent("zero point", 2, 7.0)]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"axis_q": 1, "axis_dq": 1}, []),
        ({"axis_q": 1, "axis_dq": -1}, []),
        ({}, []),
        ({"axis_dq": 1}, []),
        ({"axis_q": 0, "axis_dq": 1}, [said("axis", "0", "1")]),
        ({"axis_q": 0}, [said("axis", "0", "1")]),
        # An axis that the data does not have is no other axis; another rule (QA208) reports it.
        ({"axis_q": 5}, []),
        ({"axis_dq": 5}, []),
    ],
)
def test_axes_are_compared_as_they_count(attributes: dict[str, int], expected: list[str]):
    assert [message for message, _ in found(pair(([1, 2, 3, 4], [1, 2, 3, 4]), **attributes))] == expected
    assert found(pair((0.5, 0.5), **attributes)) == []


@pytest.mark.parametrize(("size", "expected"), [(2, []), (4, [said("block_size", "2", "4")])])
def test_block_sizes_are_compared(size: int, expected: list[str]):
    scale: Constant = [[1.0, 2.0]] * 4
    model = pair((scale, scale), axis_q=1, axis_dq=1, block_size_q=2, block_size_dq=size)
    assert [message for message, _ in found(model)] == expected


@pytest.mark.parametrize("computed", ["s_q", "s_dq", "z_q", "z_dq"])
def test_what_is_not_constant_is_compared_with_nothing(computed: str):
    model = pair((0.5, 0.25), (3, 5)) if computed.startswith("z") else pair((0.5, 0.25))
    kept = [each for each in model.graph.initializer if each.name != computed]
    kind = TensorProto.INT8 if computed.startswith("z") else TensorProto.FLOAT
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.graph.input.append(helper.make_tensor_value_info(computed, kind, []))
    left = [said("scale", "0.5", "0.25")] if computed.startswith("z") else []
    assert [message for message, _ in found(model)] == left


SCALES = st.lists(st.sampled_from([0.25, 0.5, 1.0, float("nan")]), min_size=4, max_size=4)


@given(SCALES, SCALES)
def test_there_is_a_finding_where_numbers_differ(made: list[float], read: list[float]):
    bits = [[np.float32(each).tobytes() for each in scales] for scales in (made, read)]
    assert bool(found(pair((made, read), axis_q=1, axis_dq=1))) is (bits[0] != bits[1])
