"""A pytest plugin that notes which lines of the package each test runs, and how long it takes.

Loaded with ``-p tools.mutation.reach_plugin``. ``QDQTOOL_REACH`` names the folder for its files: one pair for each
process.
Lines that run while modules are imported are noted under the empty context.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

FOLDER = Path(os.environ["QDQTOOL_REACH"])
_seconds: dict[str, float] = {}
_failed: set[str] = set()
_measured = coverage.Coverage(
    data_file=str(FOLDER / f"lines.{os.getpid()}"), source=[os.environ["QDQTOOL_REACH_SOURCE"]], config_file=False
)
_measured.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what this test runs under its name."""
    _measured.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        _measured.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of setting up, calling and tearing down."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_unconfigure() -> None:
    """Write both files."""
    _measured.stop()
    _measured.save()
    passed = {name: seconds for name, seconds in _seconds.items() if name not in _failed}
    (FOLDER / f"seconds.{os.getpid()}.json").write_text(json.dumps(passed))
