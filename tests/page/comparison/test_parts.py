"""Outputs, tensors and nodes in float of two models."""

from pathlib import Path
from typing import Any

from support.pairs import pair_of, rows_of, said_in, table_of
from support.saved_reports import ALL, CHECK, INSPECT, SECOND, edited

from qdqtool.page.comparison import left_in_float, outputs, tensors

DASH = "\N{EN DASH}"


def with_outputs(documents: Any, *made: Any) -> Any:
    return {"check": documents["check"] | {"outputs": [CHECK["outputs"][0] | each for each in made]}}


def test_outputs_are_joined_by_name_the_worst_first(tmp_path: Path):
    a = with_outputs(ALL, {"name": "p", "sqnr_db": 50.0}, {"name": "q", "sqnr_db": 20.0}, {"name": "old"})
    b = with_outputs(SECOND, {"name": "q", "sqnr_db": 22.5}, {"name": "p", "sqnr_db": 15.25}, {"name": "new"})
    found = outputs.blocks(pair_of(tmp_path, a, b))

    assert [*rows_of(found)][:2] == ["p", "q"]
    assert rows_of(found) == {
        "p": ["50.00 dB", "15.25 dB", "+34.75 dB"],
        "q": ["20.00 dB", "22.50 dB", "-2.50 dB"],
        "old": ["41.25 dB", "unknown", DASH],
        "new": ["unknown", "41.25 dB", DASH],
    }


def test_outputs_that_are_not_float_are_compared_by_equal_elements(tmp_path: Path):
    a = with_outputs(ALL, {"name": "label", "agreement": 0.75, "sqnr_db": None})
    b = with_outputs(SECOND, {"name": "label", "exact": True, "agreement": 1.0, "sqnr_db": None})
    assert rows_of(outputs.blocks(pair_of(tmp_path, a, b))) == {"label": ["75.00%", "100.00%", "-25.00%"]}


def test_an_unfair_difference_of_outputs_is_replaced_by_the_reason(tmp_path: Path):
    b = edited(with_outputs(SECOND, {}), lambda it: it["check"]["data"].update(seed=3))
    assert rows_of(outputs.blocks(pair_of(tmp_path, ALL, b)))["y"] == ["41.25 dB", "41.25 dB", "other data"]
    assert outputs.blocks(pair_of(tmp_path, ALL, {"quantize": SECOND["quantize"]})) == ()


def with_tensors(documents: Any, **sqnrs: float) -> Any:
    known = CHECK["boundaries"][0]
    made = [known | {"tensor": name, "sqnr_db": value} for name, value in sqnrs.items()]
    return {"check": documents["check"] | {"boundaries": made}}


def test_tensors_are_joined_and_those_of_one_model_are_listed(tmp_path: Path):
    a = with_tensors(ALL, x=30.0, y=20.0, weight=10.0, same=5.0, near=5.001)
    b = with_tensors(SECOND, x=31.0, y=12.0, extra=1.0, same=5.0, near=5.002)
    found = tensors.blocks(pair_of(tmp_path, a, b))

    assert [row[0].text for row in table_of(found).rows] == ["y", "x"]
    assert rows_of(found)["y"] == [
        "activation",
        *("int8, per-tensor", "int8, per-tensor"),
        *("20.00 dB", "12.00 dB", "+8.00 dB"),
        *("5.00%", "5.00%", "0.00%"),
    ]
    assert said_in(found) == [
        "2 tensors without a difference are left out.",
        "1 tensor in A only: weight",
        "1 tensor in B only: extra",
    ]


def test_a_tensor_in_another_format_differs_whatever_its_sqnr(tmp_path: Path):
    other = edited(with_tensors(SECOND, x=30.0), lambda it: it["check"]["boundaries"][0].update(format="uint8"))
    found = tensors.blocks(pair_of(tmp_path, with_tensors(ALL, x=30.0), other))
    assert rows_of(found)["x"][1:3] == ["int8, per-tensor", "uint8, per-tensor"]


def test_differences_of_clipping_are_in_points_and_never_rounded_to_nothing(tmp_path: Path):
    a = with_tensors(ALL, x=30.0)
    b = edited(with_tensors(SECOND, x=30.0), lambda it: it["check"]["boundaries"][0].update(clipped=0))
    tiny = edited(a, lambda it: it["check"]["boundaries"][0].update(clipped=1, elements=40_000))

    assert rows_of(tensors.blocks(pair_of(tmp_path, a, b)))["x"][-3:] == ["5.00%", "0.00%", "+5.00%"]
    assert rows_of(tensors.blocks(pair_of(tmp_path, tiny, b)))["x"][-3:] == ["< 0.01%", "0.00%", "+0.0025%"]


def test_a_tensor_that_several_nodes_quantize_has_its_worst_sqnr(tmp_path: Path):
    twice = with_tensors(ALL, x=30.0)
    twice["check"]["boundaries"].append(twice["check"]["boundaries"][0] | {"sqnr_db": 9.0})
    found = tensors.blocks(pair_of(tmp_path, twice, with_tensors(SECOND, x=31.0)))
    assert rows_of(found)["x"][3:6] == ["9.00 dB", "31.00 dB", "-22.00 dB"]


def test_tensors_of_other_data_have_no_difference(tmp_path: Path):
    b = edited(with_tensors(SECOND, x=31.0), lambda it: it["check"]["data"].update(samples=1))
    found = tensors.blocks(pair_of(tmp_path, with_tensors(ALL, x=30.0), b))

    assert rows_of(found)["x"][3:] == ["30.00 dB", "31.00 dB", DASH, "5.00%", "5.00%", DASH]
    assert said_in(found)[0].startswith("No difference of SQNRs is given (other samples)")


def skipping(documents: Any, *nodes: str) -> Any:
    skip = ALL["quantize"]["skipped"][0]
    return {"quantize": documents["quantize"] | {"skipped": [skip | {"node": node} for node in nodes]}}


def test_nodes_in_float_in_one_model_only(tmp_path: Path):
    found = left_in_float.blocks(pair_of(tmp_path, skipping(ALL, "p", "q"), skipping(SECOND, "q", "r")))
    assert rows_of(found, "in A only") == {"p": ["Gemm", "too small"]}
    assert rows_of(found, "in B only") == {"r": ["Gemm", "too small"]}

    same = left_in_float.blocks(pair_of(tmp_path, skipping(ALL, "p"), skipping(SECOND, "p")))
    assert said_in(same) == ["Both models leave the same nodes in float."]


def test_a_model_of_another_tool_is_compared_by_operators(tmp_path: Path):
    def covering(documents: Any, **counts: int) -> Any:
        made = [{"op_type": kind, "total": 9, "quantized": count, "partly": 0} for kind, count in counts.items()]
        return {"inspect": documents["inspect"] | {"coverage": made}}

    found = left_in_float.blocks(pair_of(tmp_path, covering(ALL, Conv=5, Gemm=1), covering(SECOND, Conv=7, MatMul=2)))
    assert rows_of(found) == {"Conv": ["5", "7", "-2"], "Gemm": ["1", "0", "+1"], "MatMul": ["0", "2", "-2"]}
    of_float = {"inspect": INSPECT | {"groups": []}}
    assert left_in_float.blocks(pair_of(tmp_path, ALL, of_float)) == ()
