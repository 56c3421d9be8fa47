"""A check without a limit on the accuracy gets one that the model keeps."""

from pathlib import Path

import pytest
from support.advice import commands_of
from support.saved_reports import CHECK, edited

from qdqtool.reports.page.advice import missing_limits


@pytest.mark.parametrize(("worst", "limit"), [(41.25, 41), (30.0, 30), (-0.5, -1)])
def test_the_limit_is_one_that_the_model_keeps(worst: float, limit: int, tmp_path: Path):
    check = edited(CHECK, lambda it: it["outputs"][0].update(sqnr_db=worst))
    (command,) = commands_of(missing_limits, tmp_path, check=check)
    assert command == f"qdqtool check net.int8.onnx --baseline net.onnx --data data.npz --min-sqnr {limit}"


def test_a_limit_that_was_given_a_failed_check_and_exact_outputs_need_none(tmp_path: Path):
    limited = edited(CHECK, lambda it: it["gates"].append({**it["gates"][0], "name": "min-cosine"}))
    exact = edited(CHECK, lambda it: it["outputs"][0].update(sqnr_db=None, exact=True))
    for check in (limited, exact, {**CHECK, "passed": False}):
        assert commands_of(missing_limits, tmp_path, check=check) == []
