"""Every question without an answer has the command that answers it, with the files of the reports."""

from pathlib import Path

from support.advice import commands_of
from support.saved_reports import ALL, CONVERT, QUANTIZE, VALIDATE, edited

from qdqtool.reports.page.advice import open_questions


def test_each_open_question_has_its_command(tmp_path: Path):
    assert commands_of(open_questions, tmp_path, quantize=QUANTIZE) == [
        "qdqtool validate out/net.int8.onnx",
        "qdqtool check out/net.int8.onnx --baseline net.onnx --data data.npz",
        "qdqtool build out/net.int8.onnx --data data.npz -o NEW.engine",
    ]


def test_answered_questions_and_steps_that_nobody_asked_for_have_none(tmp_path: Path):
    assert commands_of(open_questions, tmp_path, **ALL) == []
    assert commands_of(open_questions, tmp_path, report=CONVERT) == []


def test_errors_are_mended_before_anything_is_run(tmp_path: Path):
    invalid = edited(VALIDATE, lambda it: it["models"][0]["targets"][0].update(verdict="fail"))
    assert commands_of(open_questions, tmp_path, validate=invalid) == []


def test_shapes_come_from_arrays_and_not_from_files_that_build_does_not_read(tmp_path: Path):
    images = edited(QUANTIZE, lambda it: it["calibration"].update(source="images"))
    assert commands_of(open_questions, tmp_path, quantize=images)[-1] == "qdqtool build out/net.int8.onnx -o NEW.engine"
