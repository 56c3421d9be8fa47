"""The process that parses: one for many models, and one more after a model that kills it or that it hangs on."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.paths import ROOT

from qdqtool.engines.tensorrt.parser_process import ParserProcess


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[ParserProcess]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    process = ParserProcess("support.pretended_trt", seconds=20, further_seconds=0)
    yield process
    process.stop()


def test_one_process_answers_many_times(process: ParserProcess):
    accepted, refused = process.ask(Path("fine.onnx")), process.ask(Path("refused.onnx"))

    assert (accepted.end, accepted.facts["errors"], accepted.facts["version"]) == ("done", [], "1.0")
    assert (refused.end, [error["name"] for error in refused.facts["errors"]]) == ("done", ["n"])


def test_a_refusal_without_an_error_is_no_acceptance(process: ParserProcess):
    answer = process.ask(Path("silent.onnx"))

    assert [error["message"] for error in answer.facts["errors"]] == [""]


def test_a_model_that_kills_the_process_does_not_stop_the_next(process: ParserProcess):
    assert (answer := process.ask(Path("dies.onnx"))).end == "died"
    assert answer.problem == "SIGSEGV"
    assert process.ask(Path("fine.onnx")).end == "done"


def test_a_model_that_it_hangs_on_does_not_stop_the_next(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    process = ParserProcess("support.pretended_trt", seconds=2, further_seconds=0)
    begun = time.monotonic()

    assert process.ask(Path("hangs.onnx")).end == "timed out"
    assert time.monotonic() - begun < 10
    assert process.ask(Path("fine.onnx")).end == "done"
    process.stop()


def test_a_module_that_cannot_be_loaded_is_absent():
    process = ParserProcess("no_such_module", seconds=20, further_seconds=0)
    answer = process.ask(Path("fine.onnx"))
    process.stop()

    assert answer.end == "absent"
    assert "no_such_module" in answer.problem


def test_a_stopped_process_answers_no_more(process: ParserProcess):
    process.start()
    process.stop()

    assert process.ask(Path("fine.onnx")).end == "absent"


def test_a_model_whose_name_is_no_utf_8_is_parsed(process: ParserProcess):
    answer = process.ask(Path(os.fsdecode(b"m\xe9.onnx")))
    assert (answer.end, answer.facts["errors"]) == ("done", [])
