"""The recorded messages are what TensorRT prints today; tables count models; general forms join what is alike."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.paths import ROOT

from benchmarks.refused import page, recorded
from benchmarks.refused.corpora import CORPORA, Source
from benchmarks.refused.judge import Judge
from benchmarks.refused.messages import general
from benchmarks.refused.row import Row, judged
from qdqtool.engines.tensorrt.known_refusals import KNOWN

ROWS = json.loads((ROOT / "tests" / "engines" / "tensorrt" / "data" / "refusals.json").read_text(encoding="utf-8"))
MADE = {(row["corpus"], row["model"]): row for row in ROWS if row["corpus"] in recorded.MADE}


@pytest.fixture
def judge() -> Iterator[Judge]:
    judge = Judge("tensorrt_rtx", 120)
    yield judge
    judge.stop()


@pytest.mark.slow(reason="builds an engine for each node")
@pytest.mark.builder
@pytest.mark.parametrize("name", [name for name in CORPORA if name != "packages"])
def test_the_recorded_messages_are_printed_today(name: str, judge: Judge, tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    wanted: list[Source] = [each for each in CORPORA[name](tmp_path) if (each.corpus, each.name) in MADE]
    assert wanted
    for source in wanted:
        row = judged(source, judge)
        expected = MADE[source.corpus, source.name]
        assert (row.stage, row.message) == (expected["stage"], general(expected["message"]) or "no words"), source
        assert row.reason, source


@pytest.mark.builder
def test_what_becomes_of_a_model_that_kills_the_process_and_of_the_next(judge: Judge, tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    sources = {source.name: source for source in CORPORA["rules"](tmp_path)}
    crash = judged(sources["QT406 fp4 times fp4"], judge)
    assert (crash.stage, crash.message, crash.has_node, crash.has_hint) == ("build", "SIGSEGV", True, True)
    assert judged(next(iter(sources.values())), judge).stage == "built"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "Number of output channels = 16, number of scales = 7.",
            "Number of output channels = N, number of scales = N",
        ),
        (
            "node_of_y: input has type Int8 but must have type Float",
            "NODE: input has type Int8 but must have type Float",
        ),
        ("IScaleLayer w: w: odd volume", "IScaleLayer NODE: odd volume"),
        (
            "IB::b: Error Code 1: Myelin ([a.cpp:1: f] x.h:2: CHECK(a) failed. In c at /s/c.cpp:3)",
            "x.h: CHECK(a) failed",
        ),
        ("Cannot compile for target(s) sm80, sm86, because", "Cannot compile for target(s) SM, because"),
        ("Cannot compile for target(s) sm75, because", "Cannot compile for target(s) SM, because"),
        ("Reshaping [2,1,1] to [1,1]", "Reshaping […] to […]"),
        ("", ""),
    ],
)
def test_the_general_form(message: str, expected: str):
    assert general(message).rstrip(".") == expected


def test_the_tables_count_what_is_named_and_what_is_not():
    rows = [
        Row("a", "1", "built"),
        Row("a", "2", "parse", "M|N", "m", "Op", reason="why", has_node=True, has_hint=True, has_fix=True),
        Row("a", "3", "parse", "M|N", "m", "Op", reason="why", has_hint=True),
        Row("b", "4", "build", "new"),
        Row("b", "5", "unread", "no"),
    ]
    assert list(page.corpora(rows))[2:] == [
        "| a | 3 | 1 | 2 | 0 | 2 | 1 | 2 |",
        "| b | 1 | 0 | 0 | 1 | 0 | 0 | 0 |",
        "| all | 4 | 1 | 2 | 1 | 2 | 1 | 2 |",
    ]
    assert list(page.messages(rows))[2:] == [
        "| parse | `M/N` | 2 | why | 1 of 2 | yes | 1 of 2 |",
        "| build | `new` | 1 | **not explained** | no | no | no |",
    ]


def test_the_tables_stand_between_the_comments_of_the_page(tmp_path: Path):
    path = tmp_path / "page.md"
    text = "top\n<!-- corpora -->\nold\n<!-- end of corpora -->\nmid\n<!-- messages --><!-- end of messages -->\nend\n"
    path.write_text(text, encoding="utf-8")
    page.put(path, [Row("a", "1", "built")])
    first = path.read_text(encoding="utf-8")
    assert "old" not in first
    assert "| a | 1 | 1 | 0 | 0 | 0 | 0 | 0 |" in first
    assert [first.index(word) for word in ("top", "| a |", "mid", "end\n")] == sorted(
        first.index(word) for word in ("top", "| a |", "mid", "end\n")
    )
    page.put(path, [Row("a", "1", "built")])
    assert path.read_text(encoding="utf-8") == first


def test_the_smallest_model_of_each_entry_is_recorded(tmp_path: Path):
    message = "Scale coefficients must all be positive"
    rows = [
        Row("packages", "tiny", "parse", "m", message, model=1),
        Row("node tests", "large", "parse", "m", message, model=9),
        Row("node tests", "small", "parse", "m", message, model=5),
    ]
    recorded.write(tmp_path / "r.json", rows)
    (row,) = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert (row["model"], row["message"]) == ("small", message)
    assert any(entry.reason == row["reason"] for entry in KNOWN)


@pytest.mark.slow(reason="runs the corpus of refusals")
def test_a_corpus_leaves_onnx_s_examples_as_they_are(tmp_path: Path):
    """onnx hands the same objects to every test of the process."""
    before = [(each.name, each.path.read_bytes()) for each in CORPORA["nodes"](tmp_path)]
    assert list(CORPORA["stored"](tmp_path))
    assert [(each.name, each.path.read_bytes()) for each in CORPORA["nodes"](tmp_path)] == before
