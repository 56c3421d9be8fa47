"""The figures at the top of the page."""

from typing import Any

from support.saved_reports import ALL, edited, whole

from qdqtool.reports.page.html import key_figures
from qdqtool.reports.saved.reading import read_document
from qdqtool.reports.saved.story import join


def figures(**documents: Any) -> dict[str, str]:
    reports = tuple(each for name, found in documents.items() for each in read_document(whole(found), f"{name}.json"))
    return {name: cell.text for name, cell in key_figures(join(reports)).rows}


def test_all_that_the_reports_say():
    assert figures(**ALL) == {
        "Quantized": "1 tensor in int8 for tensorrt, 1 quantizable node unquantized",
        "Worst output": "y: 41.25 dB on 8 samples of data.npz",
        "Noisiest layers": "conv (75.00%) of the noise at the output where it is largest",
        "Sizes": "model 1 kB of 4 kB, engine 5 kB",
    }


def test_the_worst_output_is_the_one_with_least_sqnr_and_exact_ones_are_best():
    def three(report: Any) -> None:
        values = {"a": (30.0, False), "b": (12.5, False), "c": (None, True)}
        report["outputs"] = [
            {**report["outputs"][0], "name": name, "sqnr_db": db, "exact": exact}
            for name, (db, exact) in values.items()
        ]

    assert figures(check=edited(ALL["check"], three))["Worst output"] == "b: 12.50 dB on 8 samples of data.npz"
    exact = edited(ALL["check"], lambda it: it["outputs"][0].update(exact=True, sqnr_db=None))
    assert figures(check=exact)["Worst output"] == "y: exact on 8 samples of data.npz"


def test_each_check_has_its_worst_output():
    second = edited(ALL["check"], lambda it: it["data"].update(source="other.npz", samples=1))
    found = figures(first=ALL["check"], second=second)
    assert found["Worst output [first.json]"] == "y: 41.25 dB on 8 samples of data.npz"
    assert found["Worst output [second.json]"] == "y: 41.25 dB on 1 sample of other.npz"


def test_without_a_check_quantize_says_what_it_cost():
    assert figures(quantize=ALL["quantize"])["Worst output"] == "y: 40.50 dB on 2 hold-out samples"


def test_random_data_says_nothing_of_the_accuracy():
    random = edited(ALL["check"], lambda it: it["data"].update(seed=1))
    assert "Worst output" not in figures(check=random)
    calibrated = edited(ALL["quantize"], lambda it: it["calibration"].update(random=True))
    assert "Worst output" not in figures(quantize=calibrated)


def test_what_no_report_says_is_left_out():
    assert figures(validate=ALL["validate"]) == {}
