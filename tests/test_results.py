"""Every report becomes the data that the command line prints as JSON, and a table in which no text is markup."""

import html.parser
import json
import math
import os
import re
import tomllib
from dataclasses import dataclass, field

import pytest
from support.command import qdqtool_process
from support.paths import ROOT

import qdqtool
from qdqtool.reports import json as json_report
from qdqtool.results import MOST_ROWS, Report, __version__

PUBLIC = [name for name in qdqtool.__all__ if (name.endswith("Report") and name != "Report") or name == "EngineMap"]


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    db: float = 1.0
    shape: tuple[int, ...] = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Report):
    model: str = "m.onnx"
    passed: bool = True
    sqnr: float = 12.3456789
    nothing: str | None = None
    parts: tuple[Part, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    one: Part | None = None


class Tags(html.parser.HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, tuple(attrs)))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += f"{data}\n"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_report_has_both_by_one_mechanism(name: str):
    found = getattr(qdqtool, name)
    assert issubclass(found, Report)
    assert not {"to_dict", "_repr_html_"} & set(vars(found))
    assert len(PUBLIC) > 15


def test_plain_data_is_the_json_of_the_command_line():
    report = Sample(parts=(Part("\x1b[31mé", math.nan), Part("b", math.inf)), counts={"int8": 3})
    assert report.to_dict() == json.loads(json_report.render(report))
    assert report.to_dict()["parts"][0] == {"name": "\x1b[31mé", "db": None, "shape": [1, 2]}
    assert (report.to_dict()["schema_version"], type(report.to_dict()["counts"]["int8"])) == (1, int)


def test_a_name_that_is_no_utf_8_is_spelled_and_the_rest_stays():
    made = Sample(model=os.fsdecode(b"m\xe9.onnx"), parts=(Part("modèle\n", math.nan),), counts={"a": 2})
    found = made.to_dict()
    assert found["model"] == r"m\udce9.onnx"
    assert found["parts"] == [{"name": "modèle\n", "db": None, "shape": [1, 2]}]
    assert found | {"model": "m.onnx"} == Sample(parts=(Part("modèle\n", math.nan),), counts={"a": 2}).to_dict()


def test_no_text_of_a_model_is_markup():
    evil = "<script>alert(1)</script>&\u202e\x1b"
    page = Sample(model=evil, parts=(Part(evil),), counts={evil: 1}, one=Part(evil))._repr_html_()
    parsed = Tags(page)
    assert {tag for tag, _ in parsed.tags} == {
        "table",
        "caption",
        "b",
        "tr",
        "th",
        "td",
        "br",
        "details",
        "summary",
        "ul",
        "li",
    }
    assert not any(attributes for _, attributes in parsed.tags)
    assert parsed.text.count("<script>alert(1)</script>&\\u202e\\x1b") == 4
    assert "\x1b" not in page
    assert "\u202e" not in page


@pytest.mark.parametrize(("passed", "verdict"), [(True, "Sample: passed"), (False, "Sample: failed")])
def test_the_heading_has_the_verdict(passed: bool, verdict: str):
    assert Tags(Sample(passed=passed)._repr_html_()).text.startswith(verdict)


def test_the_table_leaves_out_what_is_empty_and_shortens_lists():
    text = Tags(Sample(parts=tuple(Part(f"p{at}") for at in range(MOST_ROWS + 5)))._repr_html_()).text
    assert "nothing" not in text
    assert "schema_version" not in text
    assert "12.3457" in text
    assert f"name p{MOST_ROWS - 1}, db 1, shape [1, 2]" in text
    assert f"p{MOST_ROWS}" not in text
    assert "… 5 more" in text


def test_what_lies_deep_is_told_too():
    @dataclass(frozen=True, slots=True)
    class Outer:
        name: str
        parts: tuple[Part, ...]

    @dataclass(frozen=True, slots=True)
    class Deep(Report):
        outer: tuple[Outer, ...]

    text = Tags(Deep((Outer("a", (Part("b", 2.5),)),))._repr_html_()).text
    assert " ".join(text.split()) == "Deep outer 1 entry name a, parts 1 entry name b, db 2.5, shape [1, 2]"


def test_the_version_is_that_of_the_project_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__


def test_the_version_is_one_that_python_packaging_knows():
    assert re.fullmatch(r"\d+(\.\d+)+((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", __version__)


def test_the_command_prints_it():
    done = qdqtool_process("--version")
    assert done.code == 0
    assert __version__ in done.out


def test_a_printed_report_has_a_line_for_each_fact():
    assert str(Sample(parts=(Part("a"), Part("b")), counts={"Conv": 3, "Gemm": {"y": 1}})).splitlines() == [
        "Sample",
        "  model: m.onnx",
        "  passed: yes",
        "  sqnr: 12.3457",
        "  parts: 2 entries",
        "  counts: Conv 3, Gemm 1 entry",
    ]
    assert str(Sample(counts={"a" * 200: 1})).splitlines()[-1] == f"  counts: {'a' * 110}…"
    assert "\\u202e" in str(Sample(model="\u202e<b>"))
    assert "<b>" in str(Sample(model="<b>"))
