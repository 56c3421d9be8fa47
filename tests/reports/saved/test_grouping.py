"""Two models are shown where they are named, or where digests leave no doubt; stale reports are still refused."""

from pathlib import Path
from typing import Any

import pytest
from support.saved_reports import (
    ALL,
    CHECK,
    CONVERT,
    FLOAT_FILE,
    INSPECT,
    QUANTIZE,
    QUANTIZED_FILE,
    SECOND,
    SECOND_FILE,
    SENSITIVITY,
    VALIDATE,
    edited,
    save,
)

from qdqtool.errors import UsageError
from qdqtool.reports.saved.grouping import group
from qdqtool.reports.saved.reading import read_reports

A, B = ALL["quantize"], SECOND["quantize"]
CALIBRATION = SENSITIVITY["calibration"]


def grouped(folder: Path, against: dict[str, Any] | None = None, **documents: Any) -> list[list[str]]:
    """Return the names of the reports of each model."""
    (folder / "second").mkdir(exist_ok=True)
    first, second = save(folder, **documents), save(folder / "second", **against or {})
    stories = group(read_reports(first, second), read_reports(second, first))
    return [[report.source.removesuffix(".json") for report in story.reports] for story in stories]


def refused(folder: Path, **documents: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        grouped(folder, **documents)
    return caught.value


def converted(quantize: dict[str, Any]) -> dict[str, Any]:
    """Return a conversion that stopped after the first step."""
    return edited(CONVERT, lambda it: (it["steps"][0].update(report=quantize), it.update(steps=it["steps"][:1])))


def test_reports_of_one_model_are_one_group(tmp_path: Path):
    assert grouped(tmp_path, **ALL) == [[*ALL]]


def test_against_names_the_second_model_whatever_paths_and_digests_say(tmp_path: Path):
    for other in (CHECK, ALL["check"], SECOND["check"]):
        assert grouped(tmp_path, {"other": other}, check=ALL["check"]) == [["check"], ["other"]]


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path):
    (first,), (second,) = grouped(tmp_path, {"check": SECOND["check"]}, check=ALL["check"])
    assert (Path(first).parent, Path(second).parent) == (tmp_path, tmp_path / "second")


@pytest.mark.parametrize(
    ("first", "second"),
    [(A, B), (converted(A), converted(B)), (A, converted(B)), (converted(A), B)],
    ids=["two quantize", "two convert", "quantize and convert", "convert and quantize"],
)
def test_two_whole_models_are_told_apart_by_their_digests(first: Any, second: Any, tmp_path: Path):
    found = grouped(tmp_path, b_check=SECOND["check"], first=first, second=second, a_check=ALL["check"])
    assert [[name for name in names if "step" not in name] for names in found] == [
        ["first", "a_check"],
        ["b_check", "second"],
    ]


def test_the_steps_of_a_conversion_stay_with_it(tmp_path: Path):
    assert grouped(tmp_path, a=converted(A), b=converted(B)) == [
        ["a", "a.json, step quantize"],
        ["b", "b.json, step quantize"],
    ]


def test_a_report_without_a_digest_goes_where_its_path_fits(tmp_path: Path):
    found = grouped(tmp_path, a=A, b=B, a_build=ALL["build"], b_build=SECOND["build"], b_inspect=SECOND["inspect"])
    assert found == [["a", "a_build"], ["b", "b_build", "b_inspect"]]


def test_a_path_that_fits_both_models_is_refused(tmp_path: Path):
    b = B | {"output": A["output"]}
    found = refused(tmp_path, a=A, b=b, build=ALL["build"])
    assert str(found) == "build.json has no digest of its model, and its path matches two models: net.int8.onnx"
    assert "--against" in str(found.hint)
    assert grouped(tmp_path, a=A, b=b, check=ALL["check"]) == [["a", "check"], ["b"]]


def test_one_report_of_validate_may_be_of_both_models(tmp_path: Path):
    both = VALIDATE | {"models": [*VALIDATE["models"], *SECOND["validate"]["models"]]}
    assert grouped(tmp_path, a=A, b=B, both=both) == [["a", "both"], ["b", "both"]]


def test_a_sensitivity_goes_to_the_models_of_its_mode_and_calibration(tmp_path: Path):
    measured = SENSITIVITY | {"model_file": FLOAT_FILE}
    entropy = CALIBRATION | {"chosen": "", "method": "entropy"}
    same_mode = B | {"mode": "int8"}
    by_entropy = same_mode | {"calibration": entropy}

    assert grouped(tmp_path, a=A, b=B, measured=measured) == [["a", "measured"], ["b"]]
    assert grouped(tmp_path, a=A, b=B, measured=SECOND["sensitivity"]) == [["a"], ["b", "measured"]]
    assert grouped(tmp_path, a=A, b=same_mode, measured=measured) == [["a", "measured"], ["b", "measured"]]
    assert grouped(tmp_path, a=A, b=by_entropy, measured=measured) == [["a", "measured"], ["b"]]
    assert grouped(tmp_path, a=A, b=by_entropy, measured=measured | {"calibration": entropy}) == [
        ["a"],
        ["b", "measured"],
    ]
    neither = measured | {"calibration": CALIBRATION | {"samples": 3}}
    assert grouped(tmp_path, a=A, b=by_entropy, measured=neither) == [["a", "measured"], ["b", "measured"]]


def test_a_sensitivity_of_neither_model_is_refused(tmp_path: Path):
    other = SENSITIVITY | {"model_file": SECOND_FILE}
    assert "sensitivity.json is about net.onnx (SHA-256 cc" in str(refused(tmp_path, a=A, b=B, sensitivity=other))
    int4 = SENSITIVITY | {"mode": "int4"}
    assert "is about mode int4, the models have mode int8 and fp8" in str(refused(tmp_path, a=A, b=B, sensitivity=int4))


def test_the_float_model_is_of_both(tmp_path: Path):
    inspected = INSPECT | {"model": "net.onnx", "groups": [], "model_file": FLOAT_FILE}
    assert grouped(tmp_path, a=A, b=B, inspected=inspected) == [["a", "inspected"], ["b", "inspected"]]


def test_a_stale_report_is_refused_beside_one_model(tmp_path: Path):
    stale = CHECK | {"model_file": SECOND_FILE}
    found = refused(tmp_path, quantize=A, check=stale)
    assert "the quantized model is out/net.int8.onnx (SHA-256 aaaaaaaaaaaa…) in quantize.json, but " in str(found)
    assert str(found.hint).startswith(
        "the file was changed between the two reports: run `qdqtool quantize` and `qdqtool check` again; "
    )


def test_a_stale_report_of_validate_is_told_like_any_other(tmp_path: Path):
    stale = edited(VALIDATE, lambda it: it["models"][0].update(file=SECOND_FILE))
    assert str(refused(tmp_path, quantize=A, validate=stale).hint).startswith("the file was changed between the two")


@pytest.mark.parametrize("command", ["check", "validate"])
def test_a_stale_report_is_refused_beside_two_models(command: str, tmp_path: Path):
    file = SECOND_FILE | {"sha256": "9" * 64}
    stale = {
        "check": CHECK | {"model_file": file},
        "validate": edited(VALIDATE, lambda it: it["models"][0].update(file=file)),
    }
    found = refused(tmp_path, a=A, b=B, stale=stale[command])

    assert "stale.json is about" in str(found)
    assert "net.fp8.onnx (SHA-256 cccccccccccc…)" in str(found)
    assert str(found.hint).startswith(
        f"the file was changed between the two reports: run `qdqtool quantize` and `qdqtool {command}"
    )


def test_a_report_of_neither_model_is_refused(tmp_path: Path):
    found = refused(tmp_path, a=A, b=B, check=CHECK | {"model": "third.onnx"})
    assert "check.json is about third.onnx, the other reports about out/net.int8.onnx" in str(found)


@pytest.mark.parametrize(
    ("first", "second"),
    [(A, A), (QUANTIZE, QUANTIZE), (A, QUANTIZE), (converted(A), A), (CONVERT, B), (A, B | {"output_file": None})],
    ids=["equal", "no digests", "one digest", "convert and its own quantize", "convert without", "the other one"],
)
def test_without_two_digests_nothing_is_guessed(first: Any, second: Any, tmp_path: Path):
    found = refused(tmp_path, first=first, second=second)
    assert "are two reports of `qdqtool quantize`, but a model may have only one" in str(found)
    assert "--against" in str(found.hint)


def test_a_conversion_that_failed_first_has_no_model(tmp_path: Path):
    failed = edited(CONVERT, lambda it: it["steps"][0].update(report=None, state="failed"))
    assert "two reports of `qdqtool convert`" in str(refused(tmp_path, a=converted(A), b=failed))


def test_three_models_are_refused(tmp_path: Path):
    third = B | {"output": "third.onnx", "output_file": QUANTIZED_FILE | {"sha256": "d" * 64}}
    found = refused(tmp_path, a=A, b=B, c=third)
    assert str(found).startswith("the reports are about 3 models (out/net.int8.onnx (SHA-256 aaaaaaaaaaaa…), ")
    assert "a page shows one or two" in str(found)
    with pytest.raises(UsageError, match="two reports of `qdqtool quantize`"):
        grouped(tmp_path, {"c": third}, a=A, b=B)


def test_two_reports_of_one_of_two_models_are_refused(tmp_path: Path):
    assert "a.json and again.json are two reports of `qdqtool quantize`" in str(refused(tmp_path, a=A, b=B, again=A))


def listed(**keys: Any) -> dict[str, Any]:
    models = [{"model": name, "verdict": "passed", "exit_code": 0, "reasons": [], "report": None} for name in "ab"]
    return {**CHECKS, **keys, "models": models}


CHECKS = {"schema_version": 1, "settings": "qdqtool.toml", "verdict": "passed", "exit_code": 0}


def test_each_model_of_a_list_is_a_group_and_other_reports_are_refused(tmp_path: Path):
    assert grouped(tmp_path, x=listed(), y=listed()) == [
        ["x.json, model 1"],
        ["x.json, model 2"],
        ["y.json, model 1"],
        ["y.json, model 2"],
    ]
    for against in (None, {"check": CHECK}):
        error = refused(tmp_path, x=listed(), against=against, **({} if against else {"check": CHECK}))
        assert "is about one model, and x.json, model 1 about a model of a list" in error.message
