"""The precision gate: how it is written, what it counts, and where it begins to fail."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.qdq import text_model

from qdqtool.engines.build.engine_map import node_macs
from qdqtool.engines.build.precision_gate import (
    PrecisionGate,
    achieved_counts,
    gate_result,
    lost_nodes,
    parse_gate,
    planned_counts,
)
from qdqtool.engines.build.report import GateResult
from qdqtool.engines.report import NodePrecision
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.models.graph.io.metadata import with_metadata
from qdqtool.samples.calibration_note import CalibrationNote, encode_note


def nodes(*types: tuple[str, str]) -> list[NodePrecision]:
    """A node for each planned and actual type."""
    return [NodePrecision(name="n", op_type="Conv", planned=planned, actual=actual) for planned, actual in types]


@pytest.mark.parametrize(
    ("text", "gate", "spelled"),
    [
        ("int8>=95%", PrecisionGate("int8", 95), "int8>=95%"),
        (" int4-weight-only  >= 99.5 % ", PrecisionGate("int4-weight-only", 99.5), "int4-weight-only>=99.5%"),
        ("float8e4m3fn>=100%", PrecisionGate("float8e4m3fn", 100), "float8e4m3fn>=100%"),
        ("int8>=0%", PrecisionGate("int8", 0), "int8>=0%"),
        ("int8 >= 5%  of  work", PrecisionGate("int8", 5, of_work=True), "int8>=5% of work"),
        ("fp8>=90%", PrecisionGate("float8e4m3fn", 90), "float8e4m3fn>=90%"),
        ("FLOAT4E2M1>=90%", PrecisionGate("float4e2m1", 90), "float4e2m1>=90%"),
        ("nvfp4-weight-only>=1%", PrecisionGate("float4e2m1-weight-only", 1), "float4e2m1-weight-only>=1%"),
    ],
)
def test_a_gate_is_read_and_spelled(text: str, gate: PrecisionGate, spelled: str) -> None:
    assert parse_gate(text) == gate
    assert str(gate) == spelled


@pytest.mark.parametrize(
    "text", ["", "int8", "int8>95%", "int8>=95", "int8>=100.1%", "int8>=-1%", "a>=1%b", "int8>=1% work"]
)
def test_what_is_no_gate_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"'{text}' is no precision gate")) as caught:
        parse_gate(text)
    assert caught.value.hint == "write it as int8>=95%"


def test_nodes_are_counted_by_the_type_that_they_are_planned_for() -> None:
    found = nodes(("int8", "int8"), ("int8", "float32"), ("fp4", "unknown"), ("int8", "int8"), ("b", "fp4"))
    assert list(planned_counts(found).items()) == [("b", 1), ("fp4", 1), ("int8", 3)]
    assert list(achieved_counts(found).items()) == [("b", 0), ("fp4", 0), ("int8", 2)]
    assert planned_counts([]) == achieved_counts([]) == {}


@pytest.mark.parametrize(
    ("good", "bad", "percent", "passed", "found"),
    [
        (19, 1, 95, True, "19 of 20 nodes (95.0 %)"),
        (19, 1, 95.1, False, "19 of 20 nodes (95.0 %)"),
        (0, 2, 0, True, "0 of 2 nodes (0.0 %)"),
        (2, 1, 66.7, False, "2 of 3 nodes (66.7 %)"),
        (3, 0, 100, True, "3 of 3 nodes (100.0 %)"),
    ],
)
def test_a_share_is_enough_where_it_is_equal(good: int, bad: int, percent: float, passed: bool, found: str) -> None:
    engine = nodes(*[("int8", "int8")] * good, *[("int8", "float32")] * bad, ("other", "int8"))
    expected = GateResult(gate=str(PrecisionGate("int8", percent)), passed=passed, found=found)
    assert gate_result(PrecisionGate("int8", percent), engine) == expected


@pytest.mark.parametrize("percent", [0, 50])
def test_a_model_that_plans_nothing_for_the_type_misses_the_gate(percent: float) -> None:
    result = gate_result(PrecisionGate("int4", percent), nodes(("int8", "int4")))
    assert (result.passed, result.found) == (False, "no node is planned for int4; planned: int8")


@pytest.mark.parametrize(
    ("gate", "found"),
    [
        ("int4", "2 of 3 nodes (66.7 %)"),
        ("int4-weight-only", "1 of 2 nodes (50.0 %)"),
        ("int8", "1 of 1 nodes (100.0 %)"),
    ],
)
def test_weights_alone_count_where_no_mode_has_activations_of_the_type(gate: str, found: str) -> None:
    only = "int4-weight-only"
    engine = nodes(("int4", "int4"), (only, only), (only, "float32"), ("int8", "int8"), ("int8-weight-only", "float32"))
    assert gate_result(parse_gate(f"{gate}>=1%"), engine).found == found


def test_nodes_that_lost_their_pairs_count_as_planned() -> None:
    one, gate = nodes(("int8", "int8")), PrecisionGate("int8", 95)
    assert gate_result(gate, one, 0).passed
    lost = gate_result(gate, one, 8)
    assert (lost.passed, lost.found) == (False, "1 of 9 nodes (11.1 %); the model has lost the Q/DQ of 8")


LAYERS = """<ir_version: 10, opset_import: ["": 21]> g (float[1,4] x, float[4,16] v, float[16,2] w) => (float[1,2] y)
<float s = {0.5}, int8 z = {0}> {
    a = QuantizeLinear (x, s, z)
    b = DequantizeLinear (a, s, z)
    [first] c = MatMul (b, v)
    d = QuantizeLinear (c, s, z)
    e = DequantizeLinear (d, s, z)
    [second] y = MatMul (e, w)
}"""


@pytest.mark.parametrize(
    ("actual", "percent", "passed", "found"),
    [
        ("int8", 66.6, True, "66.7 % of the multiply-accumulates of 2 nodes"),
        ("int8", 66.7, False, "66.7 % of the multiply-accumulates of 2 nodes"),
        ("float32", 1, False, "0.0 % of the multiply-accumulates of 2 nodes"),
    ],
)
def test_a_share_of_work_counts_what_is_not_quantized_too(
    actual: str, percent: float, passed: bool, found: str
) -> None:
    engine = [NodePrecision(name="first", op_type="MatMul", planned="int8", actual=actual)]
    work = list(node_macs(text_model(LAYERS), ()))
    result = gate_result(PrecisionGate("int8", percent, of_work=True), engine, 0, work)
    assert (result.passed, result.found) == (passed, found)


def test_work_that_is_not_known_is_no_share() -> None:
    work = node_macs(text_model(LAYERS.replace("float[1,4] x", "float[N,4] x")), ())
    result = gate_result(PrecisionGate("int8", 0, of_work=True), nodes(("int8", "int8")), 0, work)
    assert (result.passed, result.found) == (False, "not known: the multiply-accumulates of 1 node")


@pytest.mark.parametrize(
    ("edits", "recorded", "lost"),
    [
        ((), 2, 0),
        ((("MatMul (b", "MatMul (x"),), 2, 1),
        ((("MatMul (b", "MatMul (x"),), None, 0),
        ((("MatMul (b", "MatMul (x"), ("MatMul (e", "MatMul (c")), 2, 0),
    ],
    ids=["whole", "a pair is gone", "older note", "stripped"],
)
def test_pairs_that_are_gone_are_counted_by_the_note_of_quantize(
    edits: Sequence[tuple[str, str]], recorded: int | None, lost: int
) -> None:
    text = LAYERS
    for before, after in edits:
        text = text.replace(before, after)
    note = CalibrationNote(method="max", samples=1, random=False, seed=None, quantized_nodes=recorded)
    assert lost_nodes(with_metadata(text_model(text), encode_note(note))) == lost


def test_an_unknown_type_is_refused_with_the_legal_ones() -> None:
    with pytest.raises(ArgumentError, match="format 'int9' is unknown; legal: "):
        parse_gate("int9>=1%")


@given(st.lists(st.tuples(st.sampled_from(["int8", "fp8"]), st.sampled_from(["int8", "fp8", "float32"]))))
def test_no_node_is_counted_twice_or_left_out(types: list[tuple[str, str]]) -> None:
    found = nodes(*types)
    assert sum(planned_counts(found).values()) == len(types)
    assert sum(achieved_counts(found).values()) == sum(planned == actual for planned, actual in types)
