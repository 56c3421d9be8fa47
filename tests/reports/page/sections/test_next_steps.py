"""The steps on the page: first what failed, names quoted for a shell and kept as text; else what is not known."""

import shlex
from pathlib import Path
from typing import Any

from support.saved_reports import ALL, CHECK, CONVERT, QUANTIZE, edited, save

from qdqtool.reports.blocks import Block, Lines, Steps
from qdqtool.reports.page.sections.next_steps import blocks
from qdqtool.reports.saved.reading import FailedCommand, SavedReport, read_reports
from qdqtool.reports.saved.story import join


def shown(folder: Path, **documents: Any) -> Block:
    (block,) = blocks(join(read_reports(save(folder, **documents))))
    return block


def limited(check: Any) -> Any:
    """A check with a limit, and without samples that stand out."""
    return edited(CHECK, lambda it: (it.update(check), it["gates"].append({**it["gates"][0], "name": "min-sqnr"})))


def test_what_failed_comes_first(tmp_path: Path):
    failed = edited(CHECK, lambda it: it["gates"][0].update(passed=False))
    random = edited(QUANTIZE, lambda it: it["calibration"].update(random=True))
    block = shown(tmp_path, quantize=random, check=failed)
    assert isinstance(block, Steps)
    assert [step.command.split()[1] for step in block.steps] == ["check", "quantize", "check", "validate", "build"]


def test_where_all_is_well_nothing_stands_out_and_what_is_unknown_is_told(tmp_path: Path):
    quiet = {name: each for name, each in ALL.items() if name not in {"check", "validate"}}
    validate = edited(ALL["validate"], lambda it: it["models"][0]["targets"][0].update(findings=[]))
    block = shown(tmp_path, check=limited({}), validate=validate, **quiet)

    assert isinstance(block, Lines)
    assert block.heading == "Nothing to change"
    assert block.lines[1:] == (
        "Not known: the speed of the engine (qdqtool bench).",
        "Not known: the accuracy on data that the reports did not use.",
    )
    without = {name: each for name, each in quiet.items() if name != "sensitivity"}
    block = shown(tmp_path, check=limited({}), validate=validate, **without)
    assert isinstance(block, Lines)
    assert "Not known: the noise of each layer (qdqtool sensitivity)." in block.lines


def test_a_failure_without_a_remedy_is_not_called_nothing(tmp_path: Path):
    def lost(report: Any) -> None:
        report["steps"][2] = {"step": "check", "state": "failed", "missed": [], "message": "lost", "report": None}
        report.update(passed=False, failed="check")

    block = shown(tmp_path, report=edited(CONVERT, lost))
    assert isinstance(block, Lines)
    assert block.heading == "No fix is known"


def test_a_command_that_failed_has_its_hint_elsewhere() -> None:
    failed = FailedCommand(command="quantize", model="net.onnx", message="m", hint="h", exit_code=1)
    assert blocks(join((SavedReport("this run", "quantize", failed),))) == ()


def test_names_are_quoted_for_a_shell(tmp_path: Path):
    path = 'it\'s; rm -rf $(x) `y` & "z".onnx'
    block = shown(tmp_path, quantize={**QUANTIZE, "output": path})
    assert isinstance(block, Steps)
    assert [path in shlex.split(step.command) for step in block.steps] == [True] * 3
