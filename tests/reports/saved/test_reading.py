"""Saved reports are recognized by their keys; what is none is refused with the reason."""

import json
from math import isnan
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.json_schemas import reports
from support.printed_json import faults
from support.saved_reports import (
    ALL,
    CHECK,
    CONVERT,
    IMAGES,
    LAYERS,
    QUANTIZE,
    REFUSED,
    SENSITIVITY,
    edited,
    save,
    whole,
)

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.engines.build.report import RefusedReport
from qdqtool.errors import UsageError
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.reports.saved.reading import _KINDS, FailedCommand, read_document, read_reports
from qdqtool.reports.schemas import schema_names, schema_text
from qdqtool.results import Report, __version__
from qdqtool.samples.preprocessing import ImagePreprocessing

SCHEMAS = ("build-refused", "check-models", "convert", "inspect-layers", *ALL)


def test_each_report_is_recognized(tmp_path: Path):
    found = read_reports(save(tmp_path, **ALL))
    assert [report.command for report in found] == [*ALL]
    assert [report.source for report in found] == [f"{name}.json" for name in ALL]
    (refused,) = read_reports(save(tmp_path, refused=REFUSED))
    assert isinstance(refused.content, RefusedReport)


def test_the_steps_of_a_conversion_follow_it(tmp_path: Path):
    found = read_reports(save(tmp_path, report=CONVERT))
    assert [report.command for report in found] == ["convert", "quantize", "validate", "check"]
    assert found[3].source == "report.json, step check"
    assert isinstance(found[3].content, CheckReport)


def test_files_of_the_same_name_have_their_paths(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    paths = [*save(tmp_path / "a", check=CHECK), *save(tmp_path / "b", check=CHECK)]
    assert [report.source for report in read_reports(paths)] == [str(path) for path in paths]


@pytest.mark.parametrize("name", schema_names())
def test_every_schema_is_of_one_kind_or_of_none(name: str):
    keys = msgspec.json.decode(schema_text(name)).get("required", [])
    fitting = [kind for kind in _KINDS if kind.keys <= set(keys)]
    assert [kind.content for kind in fitting] == ([reports()[name]] if name in SCHEMAS else [])


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name not in {"convert", "check-models"}])
def test_a_report_is_read_as_what_was_printed(name: str, tmp_path: Path):
    document = whole((ALL | {"build-refused": REFUSED, "inspect-layers": LAYERS})[name])
    (found,) = read_document(document, "r.json")
    assert isinstance(found.content, Report)

    (again,) = read_document(printed := found.content.to_dict(), "r.json")

    assert list(faults(printed, name)) == []
    assert again.content == found.content
    assert covers(printed, document | {"qdqtool_version": __version__})


def covers(printed: Any, document: Any) -> bool:
    """Whether what was printed has every value of a document."""
    if isinstance(document, dict):
        return all(name in printed and covers(printed[name], value) for name, value in document.items())
    if isinstance(document, list):
        return len(printed) == len(document) and all(map(covers, printed, document))
    return bool(printed == document)


def test_a_number_that_json_cannot_spell_is_unknown_again():
    document = edited(whole(CHECK), lambda it: it["boundaries"][0].update(max_steps=None, sqnr_db=None))
    (found,) = read_document(document, "r.json")
    assert isinstance(found.content, CheckReport)
    assert isnan(found.content.boundaries[0].max_steps)
    assert found.content.boundaries[0].sqnr_db is None


def test_reports_of_earlier_versions_get_the_keys_of_this_one():
    quantize = edited(whole(QUANTIZE), lambda it: (it.pop("separated"), it["calibration"].pop("method")))
    images = {key: value for key, value in IMAGES.items() if key != "kind"}
    check = edited(whole(CHECK), lambda it: (it["data"].pop("shapes"), it["data"].update(preprocessing=images)))
    effects = edited(whole(SENSITIVITY), lambda it: it["nodes"][0].pop("exclude"))
    refused = edited(whole(REFUSED), lambda it: it.pop("hint"))
    found = [read_document(each, "r.json")[0].content for each in (quantize, check, effects, refused)]

    assert isinstance(found[0], QuantizeReport)
    assert (found[0].separated, found[0].calibration and found[0].calibration.method_used) == ((), "max")
    assert isinstance(found[1], CheckReport)
    assert (found[1].data.shapes, type(found[1].data.preprocessing)) == ({}, ImagePreprocessing)
    assert isinstance(found[2], SensitivityReport)
    assert found[2].nodes[0].exclude == ()
    assert isinstance(found[3], RefusedReport)
    assert found[3].hint is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "r.json is not a JSON report: "),
        ("[]", "r.json is not a JSON report: Expected `object`, got `array`"),
        ("{}", "r.json is not a report of qdqtool"),
        ("[" * 100_000, "r.json is not a JSON report: "),
        ('{"schema_version": 1, "tensors": {}}', "r.json is 'plan-file' .* a page cannot show"),
        (
            '{"schema_version": 1, "error": {"message": "no such file", "hint": null, "exit_code": 3}}',
            "r.json is not a report: it holds the error of a failed command: no such file",
        ),
        (
            '{"schema_version": 1, "qdqtool_version": "1", "engine": "", "manifest": "", "passed": true, "checks": []}',
            "r.json is 'verify-engine' .* a page cannot show",
        ),
        (
            json.dumps(whole(CHECK) | {"schema_version": 2}),
            "r.json has schema_version 2, but this version of qdqtool reads 1",
        ),
        (json.dumps(whole(CHECK) | {"schema_version": True}), "r.json has schema_version True"),
        (
            json.dumps(whole(CHECK) | {"passed": "yes"}),
            r"r.json is a damaged report of `qdqtool check`: Expected `bool`, got `str` - at `\$.passed`",
        ),
        (
            json.dumps({key: value for key, value in whole(CHECK).items() if key != "model"}),
            "r.json is a damaged report of `qdqtool check`: Object missing required field `model`",
        ),
    ],
    ids=["text", "array", "empty", "deep", "other", "failure", "engine", "later", "boolean", "type", "key"],
)
def test_what_is_no_report_is_refused(text: str, message: str, tmp_path: Path):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_reports([path])


def test_a_check_of_several_models_is_split_and_has_only_checks(tmp_path: Path):
    common = {
        "schema_version": 1,
        "qdqtool_version": "1",
        "settings": "qdqtool.toml",
        "verdict": "failed",
        "exit_code": 3,
    }
    reason = {"question": "numbers", "state": "failed", "detail": "no such file", "hint": "", "source": ""}
    lost = {"model": "b.onnx", "verdict": "failed", "exit_code": 3, "reasons": [reason], "report": None}
    made = {**lost, "model": "a.onnx", "reasons": [], "report": whole(CHECK)}
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**common, "models": [made, lost]}))
    first, second = read_reports([path])

    assert (first.source, first.listed_in, type(first.content)) == ("r.json, model 1", "qdqtool.toml", CheckReport)
    assert second.content == FailedCommand(
        command="check", model="b.onnx", message="no such file", hint=None, exit_code=3
    )
    path.write_text(json.dumps({**common, "models": [{**made, "report": whole(QUANTIZE)}]}))
    with pytest.raises(UsageError, match="model 1 is no report of `qdqtool check`"):
        read_reports([path])


def test_of_a_curve_file_the_report_of_quantize_is_told(tmp_path: Path):
    (tmp_path / "c.json").write_text('{"schema_version": 1, "points": []}')
    with pytest.raises(UsageError, match=r"c\.json is 'curve-file' .* a page cannot show") as caught:
        read_reports([tmp_path / "c.json"])
    assert caught.value.hint == "remove this file: the JSON report of quantize has the same curve"


def test_files_that_cannot_be_read_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"absent.json cannot be read: No such file"):
        read_reports([tmp_path / "absent.json"])
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(UsageError, match=r"bytes.json is not a JSON report"):
        read_reports([tmp_path / "bytes.json"])


def test_a_step_with_the_report_of_another_is_refused(tmp_path: Path):
    swapped = edited(CONVERT, lambda report: report["steps"][2].update(report=report["steps"][0]["report"]))
    with pytest.raises(UsageError, match="step check is a report of `qdqtool quantize`, not of check"):
        read_reports(save(tmp_path, report=swapped))
