"""The page: complete, the same in every run, without requests, with names of models as text, and its key figures."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.saved_reports import ALL, CHECK, CONVERT, QUANTIZE, SEARCH, SECOND, edited, large, save, whole
from support.vendored import FOLDER, RECORD, folder_of, recorded

from qdqtool.reports.page.html import key_figures
from qdqtool.reports.page.sections import every_section
from qdqtool.reports.page.verdict import accuracy_bars
from qdqtool.reports.page.write import write_page
from qdqtool.reports.saved.reading import read_document
from qdqtool.reports.saved.story import join

DATA = "application/json"
"""The type of a script element that is not run."""
HOSTILE = "</script><script>alert(1)</script><!--<img src=http://h/x onerror=alert(2)>\"'&{{7*7}}\u202e\x1b[31m"


class Reader(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.raw: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in {"script", "style"} and self.tags[-1][1].get("type") != DATA:
            self.raw.setdefault(self.tags[-1][0], data)
        self.text += data


def page(folder: Path, **documents: Any) -> str:
    output = folder / "page.html"
    write_page(save(folder, **documents), output)
    return output.read_text(encoding="utf-8")


def page_of_two(folder: Path, first: Any, second: Any) -> str:
    (folder / "second").mkdir(exist_ok=True)
    output = folder / "page.html"
    write_page(save(folder, **first), output, against=save(folder / "second", **second))
    return output.read_text(encoding="utf-8")


def test_every_section_is_there(tmp_path: Path):
    text = Reader(page(tmp_path, **ALL)).text

    titles = [section.title for section in every_section() if section.needs]
    assert len(titles) == 13
    places = [text.rindex(f"\n{title}\n") for title in titles if f"\n{title}\n" in text]
    assert len(places) == len(titles)
    assert places == sorted(places)
    assert "The reports of this page do not say it" not in text


def test_what_no_report_says_is_named_with_the_command_that_does(tmp_path: Path):
    text = Reader(page(tmp_path, inspect=ALL["inspect"])).text
    assert "No report answers this; qdqtool check --baseline does." in text
    assert re.search(r"Accuracy of the outputs\s*qdqtool check or qdqtool quantize", text)
    assert re.search(r"Files and digests\s*qdqtool quantize or", text)


def test_the_same_reports_give_the_same_bytes_wherever_they_lie(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    assert page(tmp_path, **ALL) == page(tmp_path / "elsewhere", **ALL)


def test_only_its_own_script_and_style_run_and_nothing_is_requested(tmp_path: Path):
    found = Reader(page(tmp_path, **ALL))
    (policy,) = (attrs["content"] for tag, attrs in found.tags if attrs.get("http-equiv") == "Content-Security-Policy")

    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for tag in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(found.raw[tag].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
        assert [(name, attrs.get("type")) for name, attrs in found.tags].count((tag, None)) == 1
    links = [attrs[name] for _, attrs in found.tags for name in ("src", "href", "action") if name in attrs]
    assert all(link is not None and link.startswith("#section-") for link in links)
    assert not any(name.startswith("on") or name == "style" for _, attrs in found.tags for name in attrs)


def _renamed(value: Any) -> Any:
    """A report in which every name and text is hostile, except those that have to be one of a few words."""
    kept = {
        "severity",
        "effect",
        "verdict",
        "step",
        "state",
        "evidence",
        "mode",
        "granularity",
        "part",
        "counts",
        "smallest",
        "largest",
    }
    if isinstance(value, dict):
        return {key: each if key in kept else _renamed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each) for each in value]
    return HOSTILE if isinstance(value, str) else value


@pytest.mark.parametrize("name", [*ALL, "convert"])
def test_whatever_a_report_says_stays_text(name: str, tmp_path: Path):
    plain, hostile = (ALL | {"convert": CONVERT})[name], _renamed((ALL | {"convert": CONVERT})[name])
    before, after = Reader(page(tmp_path, plain=plain)), Reader(page(tmp_path, plain=hostile))

    # A gate of another name is no limit on the accuracy, so that the page advises one. A problem of the accuracy of
    # quantize is a reason with a hint.
    assert {tag for tag, _ in after.tags} <= {tag for tag, _ in before.tags} | {"span", "ol", "li", "pre", "code", "br"}
    assert [attrs.get("type") for tag, attrs in after.tags if tag == "script"].count(None) == 1
    assert "alert(1)</script><!--<img src=http" in after.text
    assert "\u202e" not in after.text
    assert "\x1b" not in after.text
    assert r"\u202e\x1b[31m" in after.text
    assert "{{7*7}}" in after.text


@pytest.mark.parametrize("name", ALL)
def test_whatever_a_report_of_two_models_says_stays_text(name: str, tmp_path: Path):
    before = Reader(page_of_two(tmp_path, ALL, SECOND))
    after = Reader(page_of_two(tmp_path, {name: _renamed(ALL[name])}, {name: _renamed(SECOND[name])}))

    assert {tag for tag, _ in after.tags} <= {tag for tag, _ in before.tags}
    assert [attrs.get("type") for tag, attrs in after.tags if tag == "script"].count(None) == 1
    assert "\u202e" not in after.text
    assert "\x1b" not in after.text


def test_a_page_of_two_models_has_a_comparison_and_every_section_twice(tmp_path: Path):
    found = Reader(page_of_two(tmp_path, ALL, SECOND))
    ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    links = [attrs["href"] for tag, attrs in found.tags if tag == "a"]
    sections = [attrs["href"] for tag, attrs in found.tags if tag == "a" and attrs.get("class") != "tensor"]

    assert len(ids) == len(set(ids))
    assert len(sections) == len(set(sections))
    assert {str(link).removeprefix("#") for link in links} <= set(ids)
    for section in every_section():
        if section.needs:
            assert {f"section-a-{section.order}", f"section-b-{section.order}"} <= set(ids)
    places = [ids.index(f"section-{part}-part") for part in ("both", "a", "b")]
    assert places == sorted(places)
    assert found.text.count("\nnet.int8.onnx against net.fp8.onnx\n") == 1


def test_both_verdicts_colour_the_page_of_two_models(tmp_path: Path):
    failed = SECOND | {"check": edited(SECOND["check"], lambda it: it["gates"][0].update(passed=False))}
    whole = page_of_two(tmp_path, ALL, failed)
    assert re.findall(r'class="verdict (\w+)"', whole) == ["passed", "failed"]


def test_what_no_report_says_is_named_for_each_model(tmp_path: Path):
    text = Reader(page_of_two(tmp_path, ALL, {"inspect": SECOND["inspect"]})).text
    assert text.count("The reports do not say it. These commands do:") == 2
    assert re.search(r"Layers that differ\s*qdqtool quantize, check and sensitivity for both models", text)


def test_a_page_of_500_nodes_is_small(tmp_path: Path):
    assert len(page(tmp_path, **large(500))) < 3_000_000


def test_the_libraries_are_the_recorded_ones_and_stand_in_the_page(tmp_path: Path):
    whole = page(tmp_path, **ALL)

    assert {path.name for path in FOLDER.iterdir()} == {
        *(folder_of(each["package"]).name for each in recorded()),
        RECORD.name,
    }
    for record in recorded():
        folder = folder_of(record["package"])
        stored = {Path(name).name: digest for name, digest in record["files"].items()}
        assert {path.name for path in folder.iterdir()} == set(stored)
        assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in stored} == stored
        assert "LICENSE" in stored
        assert all(path.read_text().strip() in whole for path in folder.iterdir() if path.suffix in {".js", ".css"})


def test_the_verdict_colours_the_page(tmp_path: Path):
    failed = edited(ALL["check"], lambda it: it["gates"][0].update(passed=False))
    assert '<header class="verdict passed">' in page(tmp_path, **ALL)
    assert '<header class="verdict failed">' in page(tmp_path, **ALL | {"check": failed})
    assert '<header class="verdict warning">' in page(tmp_path, quantize=ALL["quantize"])


def figures(**documents: Any) -> dict[str, str]:
    reports = tuple(each for name, found in documents.items() for each in read_document(whole(found), f"{name}.json"))
    return {name: cell.text for name, cell in key_figures(join(reports)).rows}


def test_all_that_the_reports_say():
    assert figures(**ALL) == {
        "Quantized": "1 quantized tensor in int8 for tensorrt, 1 quantizable node unquantized",
        "Noisiest layers": "conv (75.00%) of the noise at the output where it is largest",
        "Sizes": "model 1 kB of 4 kB, engine 5 kB",
    }


def bars(**documents: Any) -> dict[str, list[tuple[object, ...]]]:
    """The bars of each report: output, accuracy, limit and state."""
    reports = tuple(each for name, found in documents.items() for each in read_document(whole(found), f"{name}.json"))
    return {
        found.caption.removeprefix("Accuracy of the outputs "): [
            (bar.name, bar.text, bar.limit, bar.state) for bar in found.bars
        ]
        for found in accuracy_bars(join(reports))
    }


NO_LIMIT = "no limit given; warning below 20 dB"


def test_every_output_has_a_bar_the_worst_first_and_exact_ones_last():
    def outputs(report: Any) -> None:
        values = {"a": (30.0, False), "b": (12.5, False), "c": (None, True), "d": (None, False)}
        report["outputs"] = [
            {**report["outputs"][0], "name": name, "sqnr_db": db, "exact": exact}
            for name, (db, exact) in values.items()
        ]

    assert bars(check=edited(CHECK, outputs))["on 8 samples of data.npz"] == [
        ("d", "no SQNR: the float output is 0, or NaN", NO_LIMIT, "warning"),
        ("b", "12.50 dB", NO_LIMIT, "warning"),
        ("a", "30.00 dB", NO_LIMIT, "passed"),
        ("c", "equal", NO_LIMIT, "passed"),
    ]


def test_a_bar_stands_against_the_limit_of_its_gate_or_the_accuracy_target():
    gate = {"name": "min-sqnr", "requires": "", "passed": False, "detail": "", "limit": 42.5, "missed_by": ["y"]}
    limited = edited(CHECK, lambda it: it["gates"].append(gate))
    assert bars(check=limited)["on 8 samples of data.npz"] == [("y", "41.25 dB", "limit 42.5 dB", "failed")]
    searched = edited(QUANTIZE, lambda it: it.update(search=SEARCH))
    assert bars(quantize=searched, check=CHECK) == {
        "on 8 samples of data.npz": [("y", "41.25 dB", "target 35 dB", "passed")]
    }
    (found,) = accuracy_bars(join(read_document(whole(limited), "check.json")))
    assert [(bar.length, bar.mark) for bar in found.bars] == [(41.25 / 60, 42.5 / 60)]


@pytest.mark.parametrize(
    ("gate", "missed_by", "state"),
    [("accuracy", "y", "failed"), ("accuracy", "z", "passed"), ("outputs-accuracy", "y", "passed")],
)
def test_an_output_that_lost_a_channel_is_red_at_any_sqnr(gate: str, missed_by: str, state: str):
    """The SQNR of all values hides the channel. The gate on saved outputs judges other outputs of these names."""
    lost = {"name": gate, "requires": "", "passed": False, "detail": "", "limit": 6, "missed_by": [missed_by]}
    check = edited(CHECK, lambda it: it.update(gates=[lost]))
    assert bars(check=check)["on 8 samples of data.npz"] == [("y", "41.25 dB", NO_LIMIT, state)]


def test_labels_stand_against_their_share_of_equal_elements():
    labels = {"sqnr_db": None, "agreement": 0.875}
    check = edited(CHECK, lambda it: it["outputs"][0].update(labels))
    assert bars(check=check)["on 8 samples of data.npz"] == [
        ("y", "87.50% equal", "no limit given; warning below 0.9", "warning")
    ]


def test_many_outputs_do_not_fill_the_header(tmp_path: Path):
    def many(report: Any) -> None:
        report["outputs"] = [{**report["outputs"][0], "name": f"y{number}"} for number in range(9)]

    text = Reader(page(tmp_path, check=edited(CHECK, many))).text
    assert "3 more, each better than these." in text


def test_each_check_has_its_bars():
    second = edited(CHECK, lambda it: it["data"].update(source="other.npz", samples=1))
    assert [*bars(first=CHECK, second=second)] == [
        "on 8 samples of data.npz [first.json]",
        "on 1 sample of other.npz [second.json]",
    ]


def test_without_a_check_quantize_says_what_it_cost():
    assert bars(quantize=QUANTIZE) == {"on 2 hold-out samples": [("y", "40.50 dB", NO_LIMIT, "passed")]}


def test_random_data_says_nothing_of_the_accuracy():
    random = edited(CHECK, lambda it: it["data"].update(seed=1))
    assert bars(check=random) == {}
    calibrated = edited(QUANTIZE, lambda it: it["calibration"].update(random=True))
    assert bars(quantize=calibrated) == {}


def test_only_what_a_reader_needs_first_is_open(tmp_path: Path):
    found = Reader(page(tmp_path, **ALL))
    sections = [attrs for tag, attrs in found.tags if tag == "details"]
    assert len(sections) == len([section for section in every_section() if section.needs]) + 1
    assert ["open" in attrs for attrs in sections] == [True, *[False] * (len(sections) - 1)]
    both = Reader(page_of_two(tmp_path, ALL, SECOND))
    assert ["open" in attrs for tag, attrs in both.tags if tag == "details"][:2] == [True, False]


def test_what_no_report_says_is_left_out():
    assert figures(validate=ALL["validate"]) == {}
