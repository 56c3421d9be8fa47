"""Layers: the noisiest first, what is not known says so; and those of two models, joined by label and scope."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, column, has_bars, states, table, texts
from support.pairs import pair_of, rows_of, said_in, table_of
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import ALL, BUILD, CHECK, QUANTIZE, SECOND, SENSITIVITY, edited

from qdqtool.reports.page.sections.layers import blocks, compared

DASH = "\N{EN DASH}"
GOAL = {
    "min_sqnr_db": 30.0,
    "layers": 2,
    "float_share": 0.25,
    "worst_without_db": 20.0,
    "worst_db": 31.0,
    "samples": 4,
    "runs": 9,
    "curve": [],
}
EFFECTS = ("Share of noise", "SQNR alone", "Gain in float", "Share of cost")
INPUTS = ("SQNR of worst input", "Clipped")


def effects(*layers: Any) -> Any:
    """A report of ``sensitivity`` on these layers."""
    base = SENSITIVITY["nodes"][0]
    return edited(SENSITIVITY, lambda it: it.update(nodes=[{**base, "nodes": [], **layer} for layer in layers]))


def test_all_that_reports_know_of_a_layer_stands_in_its_row(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, **ALL), "Quantizable nodes, the noisiest first")
    assert [[cell.text for cell in row][: len(EFFECTS) + 5] for row in found.rows] == [
        ["conv", "Conv", "75.00%", "48.50 dB", "-0.50 dB", "90.00%", "33.50 dB", "5.00%", "int8"],
        ["add (part of conv)", "unknown", *[DASH] * 4, "unknown", "unknown", "unknown"],
        ["fc", "Gemm", *[DASH] * 6, "float"],
    ]
    assert states(found, "Precision") == ["passed", "unknown", None]
    assert has_bars(found)


def test_the_noisiest_come_first_and_layers_sort_by_numbers(tmp_path: Path):
    report = effects(
        {"node": "quiet", "noise_share": 0.00005},
        {"node": "loud", "noise_share": 0.5},
        {"node": "silent", "noise_share": 0.0},
        {"node": "unknown", "noise_share": None, "worst_sqnr_db": None, "gain_db": 1.5, "cost_share": None},
    )
    found = table(blocks_of(blocks, tmp_path, sensitivity=report))

    assert texts(found, "Layer") == ["loud", "quiet", "silent", "unknown"]
    assert texts(found, "Share of noise") == ["50.00%", "< 0.01%", "0.00%", "unknown"]
    assert [cell.sort for cell in column(found, "Share of noise")] == [0.5, 0.00005, 0.0, None]
    assert texts(found, "Gain in float") == ["-0.50 dB"] * 3 + ["+1.50 dB"]
    assert states(found, "SQNR alone") == [None, None, None, "unknown"]
    assert texts(found, "Share of cost")[3] == DASH


def test_without_sensitivity_what_layers_read_is_in_the_order_of_the_reports(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, quantize=QUANTIZE, check=CHECK))
    assert found.caption == "Quantizable nodes in the order of the reports"
    assert [texts(found, title)[0] for title in INPUTS] == ["33.50 dB", "5.00%"]
    assert not set(EFFECTS) & {each.title for each in found.columns}


def test_the_costs_of_an_accuracy_target_are_those_of_the_layers_that_it_leaves_in_float(tmp_path: Path):
    left = {"node": "fc", "op_type": "Gemm", "nodes": ["fc", "relu"], "share": 0.25}
    report = edited(QUANTIZE, lambda it: it.update(goal=GOAL | {"left": [left]}))
    found = table(blocks_of(blocks, tmp_path, quantize=report, check=CHECK))

    costs = dict(zip(texts(found, "Layer"), texts(found, "Share of cost"), strict=True))
    assert costs == {"conv": DASH, "fc": "25.00%", "relu (part of fc)": DASH}
    assert not {"Share of noise", "SQNR alone", "Gain in float"} & {each.title for each in found.columns}
    measured = table(blocks_of(blocks, tmp_path, quantize=report, **{name: ALL[name] for name in ("sensitivity",)}))
    assert texts(measured, "Share of cost")[0] == "90.00%"


def test_a_precision_that_was_not_planned_stands_out(tmp_path: Path):
    for actual, text, state in (
        ("float32", "float32, planned int8", "warning"),
        ("unknown", "unknown, planned int8", "unknown"),
        ("int8", "int8", "passed"),
    ):
        build = edited(BUILD, lambda it, actual=actual: it["nodes"][0].update(actual=actual))
        found = table(blocks_of(blocks, tmp_path, **ALL | {"build": build}))
        assert (texts(found, "Precision")[0], states(found, "Precision")[0]) == (text, state)


def test_names_have_their_scope_and_are_escaped(tmp_path: Path):
    report = effects({"node": HOSTILE, "graph": "body", "nodes": [HOSTILE, "add"]})
    assert texts(table(blocks_of(blocks, tmp_path, sensitivity=report)), "Layer") == [
        f"body/{ESCAPED}",
        f"body/add (part of {ESCAPED})",
    ]


def test_without_a_measurement_there_is_no_table(tmp_path: Path):
    assert blocks_of(blocks, tmp_path, quantize=QUANTIZE, build=BUILD) == ()


def model(documents: Any, **noise: float) -> Any:
    """Return the reports of a model whose layers make so much noise."""
    effect = SECOND["sensitivity"]["nodes"][0]
    nodes = [effect | {"node": name, "nodes": [name], "noise_share": share} for name, share in noise.items()]
    mode = documents["quantize"]["mode"]
    return {
        **{name: documents[name] for name in ("quantize", "check")},
        "sensitivity": SECOND["sensitivity"] | {"mode": mode, "nodes": nodes},
    }


def test_the_row_of_a_layer_has_both_values_and_their_difference(tmp_path: Path):
    a = {name: ALL[name] for name in ("quantize", "check", "build")}
    a["sensitivity"] = SECOND["sensitivity"] | {"mode": "int8"}
    b = SECOND | {
        "check": edited(SECOND["check"], lambda it: it["boundaries"][0].update(sqnr_db=30.0)),
        "sensitivity": edited(
            SECOND["sensitivity"], lambda it: it["nodes"][0].update(noise_share=0.25, worst_sqnr_db=50.0)
        ),
        "build": edited(SECOND["build"], lambda it: it["nodes"][0].update(planned="fp8", actual="float32")),
    }
    rows = rows_of(compared(pair_of(tmp_path, a, b)))

    assert rows["conv"] == [
        "Conv",
        *("75.00%", "25.00%", "+50.00%"),
        *("48.50 dB", "50.00 dB", "-1.50 dB"),
        *("33.50 dB", "30.00 dB", "+3.50 dB"),
        "int8",
        "float32, planned fp8",
    ]


def test_layers_that_differ_most_come_first_and_equal_ones_are_left_out(tmp_path: Path):
    a = model(ALL, p=0.30, q=0.10, r=0.40, s=0.20)
    b = model(SECOND, p=0.35, q=0.40, r=0.05, s=0.20)
    found = compared(pair_of(tmp_path, a, b))
    assert [row[0].text for row in table_of(found).rows] == ["r", "q", "p"]
    # conv and fc have no difference either
    assert said_in(found) == ["3 layers without a difference are left out."]


def test_a_layer_in_float_in_one_model_alone_differs_most(tmp_path: Path):
    a = model(ALL, p=0.30, q=0.70)
    b = model(SECOND, p=0.60, q=0.70)
    b["quantize"] = edited(b["quantize"], lambda it: it["skipped"].append({**it["skipped"][0], "node": "q"}))
    rows = rows_of(compared(pair_of(tmp_path, a, b)))

    assert [*rows] == ["q", "p"]
    assert rows["q"][1:4] == ["70.00%", DASH, DASH]
    assert rows["q"][-1] == "float"


def test_without_a_build_the_formats_of_the_pairs_are_the_precision(tmp_path: Path):
    fp8 = edited(SECOND["quantize"], lambda it: it["quantized"][0].update(format="float8e4m3fn"))
    weights = edited(SECOND["quantize"], lambda it: it["quantized"][0].update(format="int4", kind="weight"))
    for quantize, words in ((fp8, "float8e4m3fn"), (weights, "int4 weights")):
        rows = rows_of(compared(pair_of(tmp_path, {"quantize": ALL["quantize"]}, {"quantize": quantize})))
        assert rows["conv"][-2:] == ["int8", words]


def test_scopes_are_not_joined(tmp_path: Path):
    inner = edited(SECOND["quantize"], lambda it: it["quantized"][0].update(graph="body", format="fp8"))
    found = compared(pair_of(tmp_path, {"quantize": ALL["quantize"]}, {"quantize": inner}))
    assert said_in(found) == ["1 layer without a difference is left out."]


def test_unfair_differences_are_not_given_and_the_reason_is(tmp_path: Path):
    a, b = model(ALL, p=0.75), model(SECOND, p=0.25)
    b["check"] = edited(b["check"], lambda it: it["data"].update(source="x.npz"))
    b["sensitivity"] = b["sensitivity"] | {"samples": 99}
    b["quantize"] = edited(b["quantize"], lambda it: it["quantized"][0].update(consumers=["p"], format="fp8"))
    a["quantize"] = edited(a["quantize"], lambda it: it["quantized"][0].update(consumers=["p"]))
    found = compared(pair_of(tmp_path, a, b))

    assert rows_of(found)["p"][1:4] == ["75.00%", "25.00%", DASH]
    assert rows_of(found)["p"][7:10] == ["33.50 dB", "33.50 dB", DASH]
    assert said_in(found)[-2:] == [
        "No difference of noise and SQNR alone is given: other samples.",
        "No difference of the SQNR of inputs is given: other data.",
    ]


def test_only_checks_of_the_same_data_count(tmp_path: Path):
    worse = edited(
        ALL["check"], lambda it: (it["data"].update(source="hard.npz"), it["boundaries"][0].update(sqnr_db=1.0))
    )
    a = {"quantize": ALL["quantize"], "check": ALL["check"], "hard": worse}
    b = {
        "quantize": SECOND["quantize"],
        "check": edited(SECOND["check"], lambda it: it["boundaries"][0].update(sqnr_db=30.0)),
    }
    assert rows_of(compared(pair_of(tmp_path, a, b)))["conv"][7:10] == ["33.50 dB", "30.00 dB", "+3.50 dB"]


def test_parts_of_a_layer_have_no_noise_of_their_own(tmp_path: Path):
    def with_add(document: Any, kind: str) -> Any:
        return edited(document, lambda it: it["quantized"][0].update(consumers=["conv", "add"], format=kind))

    a = {"quantize": with_add(ALL["quantize"], "int8"), "sensitivity": SECOND["sensitivity"] | {"mode": "int8"}}
    b = {"quantize": with_add(SECOND["quantize"], "fp8"), "sensitivity": SECOND["sensitivity"]}
    assert rows_of(compared(pair_of(tmp_path, a, b)))["add (part of conv)"][1:7] == [DASH] * 6


def test_models_without_a_layer_in_common_have_no_table(tmp_path: Path):
    assert compared(pair_of(tmp_path, {"check": ALL["check"]}, {"quantize": SECOND["quantize"]})) == ()
