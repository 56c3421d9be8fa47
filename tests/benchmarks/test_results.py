"""Results of benchmarks/peers.py: written, read again, put together and shown."""

import math
from dataclasses import replace

import pytest
from support.comparison import result
from support.paths import ROOT

from benchmarks.comparison import growth, pages, report, store, tables
from benchmarks.comparison.contestants import DEFAULT, HALF, HISTOGRAM, MAX, NO_DATA, ORT, OURS
from benchmarks.comparison.costs import Cost
from benchmarks.comparison.coverage import Half
from benchmarks.comparison.engine import Engine
from benchmarks.comparison.growth import Growth
from benchmarks.comparison.measured import Result
from benchmarks.comparison.quality import Quality


class TestStore:
    def test_what_is_written_is_read_again(self, tmp_path):
        first = result(OURS, DEFAULT, math.inf)
        first.engine, first.notes, first.load = Engine(built=True, planned=8, achieved=8), ["noted"], 0.25
        failed = replace(result(ORT, MAX, -math.inf), failed="no")
        store.write(tmp_path / "results.json", [first, failed], [grown()])
        assert store.read(tmp_path / "results.json") == ([first, failed], [grown()])

    def test_no_file_holds_nothing(self, tmp_path):
        assert store.read(tmp_path / "results.json") == ([], [])

    def test_newer_rows_replace_older_ones_and_leave_the_others(self):
        older = [result(ORT, MAX, 20), replace(result(OURS, DEFAULT, 21), model="other")]
        made = store.merged(older, [result(OURS, DEFAULT, 30), result(ORT, MAX, 25)], ["other", "model"])
        assert [(one.model, one.tool, one.quality.worst) for one in made] == [
            ("other", OURS, 21),
            ("model", OURS, 30),
            ("model", ORT, 25),
        ]

    def test_models_do_not_mix(self):
        rows = [replace(result(tool, MAX, 20), model=model) for tool in (OURS, ORT) for model in ("b", "a")]
        made = store.merged([], rows, [])
        assert [(one.model, one.tool) for one in made] == [("a", OURS), ("a", ORT), ("b", OURS), ("b", ORT)]

    def test_times_and_qualities_can_be_measured_apart(self):
        judged, timed = replace(result(OURS, MAX, 30), cost=None, baseline=None), result(OURS, MAX, 0, seconds=3)
        timed.quality = timed.coverage = None
        for order in ([judged, timed], [timed, judged]):
            (made,) = store.merged(order[:1], order[1:], [])
            assert (made.ratio("wall"), made.quality.worst) == (3, 30)

    def test_an_engine_stays_known_while_the_file_keeps_its_size(self):
        built = replace(result(OURS, MAX, 30), engine=Engine(built=True), size=10)
        (same,) = store.merged([built], [replace(result(OURS, MAX, 30), size=10)], [])
        (other,) = store.merged([built], [replace(result(OURS, MAX, 30), size=11)], [])
        assert (same.engine, other.engine) == (Engine(built=True), None)

    def test_figures_of_other_samples_are_not_mixed(self):
        timed = replace(result(OURS, MAX, 0, seconds=3), samples=100, quality=None, coverage=None)
        (made,) = store.merged([result(OURS, MAX, 30)], [timed], [])
        assert made.quality is None

    def test_a_failure_takes_the_figures_away(self):
        (made,) = store.merged([result(ORT, MAX, 30)], [replace(result(ORT, MAX, 0), failed="no", quality=None)], [])
        assert (made.failed, made.quality) == ("no", None)


def grown(tool: str = OURS, peak: int = 105) -> Growth:
    costs_of = (Cost(5, 5, 100), Cost(14, 9, peak), Cost(2, 1, 1), Cost(8, 1, 1))
    return Growth("model", tool, MAX, "max", [25, 100], *costs_of, load=0.5, versions="python 3")


class TestReport:
    def test_of_several_outputs_the_worst_is_named(self):
        one = result(OURS, MAX, 20)
        assert "| 20.00 |" in page_of(one)
        one.quality = Quality({"a": 30.0, "b": 25.0})
        assert "| 25.00 (b) |" in page_of(one)

    def test_notes_name_no_folders_of_this_machine(self):
        one = result(OURS, MAX, 20)
        one.notes = ["Load model from /home/somebody/model.onnx failed"]
        assert "Load model from model.onnx failed" in page_of(one)

    def test_the_summary_has_our_default_and_the_best_of_a_peer(self):
        rows = tables.summary(
            [result(OURS, DEFAULT, 40), result(OURS, MAX, 50), result(ORT, MAX, 30), result(ORT, HISTOGRAM, 35)]
        )
        assert rows == [["model", "40.0 dB, 9 of 9", "35.0 dB, 9 of 9", "-"]]

    def test_conversions_to_half_precision_have_a_table_of_their_own(self, tmp_path):
        one = replace(result(OURS, HALF, 60.5), half=Half(nodes=3, half=2, work=62.5, casts=4))
        one.engine, failed = Engine(built=True), replace(result(ORT, HALF, 0), half=None, failed="no", method=NO_DATA)
        store.write(tmp_path / "results.json", [one, failed], [])
        page = report.halves(tables.markdown, store.read(tmp_path / "results.json")[0])
        assert "| model | qdqtool | 8 samples | 60.50 | 2 of 3 | 62.5 % | 4 | yes | 1.0 |" in page
        assert "| model | ORT | none | failed | - | - | - | - | - |" in page
        assert "ORT fp16, no data: SKIPPED: no" in page


def page_of(one: Result) -> str:
    return report.comparison(tables.markdown, [one], "wall")


class TestGrowth:
    def test_time_splits_into_a_fixed_part_and_one_for_each_sample(self):
        one = grown()  # 5 s for 25 and 14 s for 100 samples: 2 s and 0.12 s each
        assert (one.fixed, one.slope, one.plain_slope) == pytest.approx((2, 0.12, 0.08))
        cells = dict(zip(growth.COLUMNS, one.row, strict=True))
        assert (cells["fixed s"], cells["ms a sample"], cells["ratio a sample"]) == ("2.00", "120.00", "1.50")
        assert (cells["ratio at few"], cells["ratio at many"], cells["memory ratio"]) == ("2.50", "1.75", "1.05")

    def test_no_ratio_to_inference_that_is_lost_in_starting_up(self):
        one = replace(grown(), plain_many=Cost(2.1, 1, 1))
        cells = dict(zip(growth.COLUMNS, one.row, strict=True))
        assert (cells["plain ms"], cells["ratio a sample"], cells["ratio at many"]) == ("-", "-", "6.67")

    def test_memory_is_judged_for_ours_alone(self):
        assert grown().row[-1] == "met"
        assert grown(peak=115).row[-1] == "missed by 0.05"
        assert grown(tool=ORT, peak=115).row[-1] == "-"

    def test_newer_measurements_replace_older_ones(self):
        made = store.merged_growth([grown(), grown(tool=ORT)], [grown(peak=101)])
        assert [(one.tool, one.many.peak) for one in made] == [(OURS, 101), (ORT, 105)]


class TestDocumentation:
    def test_its_tables_are_the_recorded_results(self):
        page = (ROOT / "docs/developers/benchmarks.md").read_text(encoding="utf-8")
        results, measured = store.read(ROOT / "benchmarks/results.json")
        assert {OURS, ORT} <= {one.tool for one in results}
        assert OURS in {one.tool for one in measured}
        parts = report.parts(tables.markdown, results, measured, "wall")
        assert list(parts) == ["peers", "half", "growth"]
        assert all(text in page for text in parts.values())


class TestPages:
    def test_tables_go_between_their_comments(self, tmp_path):
        page = tmp_path / "page.md"
        page.write_text(
            "text\n<!-- peers -->\nold\n<!-- end of peers -->\nmore\n<!-- growth --><!-- end of growth -->\n"
        )
        pages.put(page, {"peers": "| new |"})
        pages.put(page, {"peers": "| newer |", "growth": "| large |"})
        assert page.read_text() == (
            "text\n<!-- peers -->\n\n| newer |\n\n<!-- end of peers -->\nmore\n"
            "<!-- growth -->\n\n| large |\n\n<!-- end of growth -->\n"
        )

    def test_a_page_without_room_for_a_table_keeps_its_text(self, tmp_path):
        page = tmp_path / "page.md"
        page.write_text("text\n<!-- peers -->\n<!-- end of peers -->\n")
        pages.put(page, {"peers": "| new |", "growth": "| large |"})
        assert page.read_text() == "text\n<!-- peers -->\n\n| new |\n\n<!-- end of peers -->\n"

    def test_without_comments_they_are_the_file(self, tmp_path):
        pages.put(tmp_path / "page.md", {"peers": "| new |", "growth": "| large |"})
        assert (tmp_path / "page.md").read_text() == "| new |\n\n| large |\n"
