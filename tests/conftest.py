"""Shared fixtures."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from support.leftovers import Leftovers, set_signals
from support.processor_time import (
    pytest_collection,
    pytest_collection_modifyitems,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    pytest_runtest_teardown,
)

__all__ = [  # hooks
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_runtest_teardown",
]

set_signals()

settings.register_profile("no deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("no deadline")

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # as importing qdqtool does; a test may import onnxruntime before
os.environ.pop("COLUMNS", None)  # pytest-xdist exports a width, which reports would be wrapped to

REAL_MODELS = "QDQTOOL_REAL_MODELS"


def real_models() -> list[Path]:
    """The real models to try everything on; empty when the folder is not named."""
    folder = os.environ.get(REAL_MODELS)
    return sorted(Path(folder).glob("*.onnx")) if folder else []


@pytest.fixture(scope="session", autouse=True)
def _leftovers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Leftovers]:
    """Fail where tests leave processes, ports or temporary files behind."""
    leftovers = Leftovers(tmp_path_factory.mktemp("temporary"))
    yield leftovers
    found = list(leftovers.found())
    assert not found, "tests left behind: " + "; ".join(found)


@pytest.fixture(scope="module", autouse=True)
def _note_processes(_leftovers: Leftovers, request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    _leftovers.note(request.node.nodeid)


@pytest.fixture(scope="session", autouse=True)
def _reports_fit_their_schemas() -> Iterator[None]:
    """Hold every report that a test renders as JSON to its schema; ``support.command`` does so for other processes."""
    from qdqtool.reports import json

    render = json.render

    def checked(report: Any) -> str:
        from support.printed_json import check_report  # imports every report, which most tests do not need

        text = render(report)
        check_report(report, text)
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json, "render", checked)
        yield


@pytest.fixture(scope="session", autouse=True)
def _files_fit_their_schemas() -> Iterator[None]:
    """Hold every JSON file with a ``schema_version`` that a test writes to the schemas, before it gets its name."""
    from qdqtool.models.graph.io.output import Staged

    publish = Staged.publish

    def checked(staged: Staged, *, then_remove: Sequence[Path] = ()) -> None:
        if staged.destination.path.suffix == ".json":
            from support.printed_json import check_file

            check_file(staged.destination.path.name, staged.file.read_bytes())
        publish(staged, then_remove=then_remove)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Staged, "publish", checked)
        yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that ask for ``real_model`` once for each real model, or skip them visibly."""
    if "real_model" not in metafunc.fixturenames:
        return
    slow = pytest.mark.slow(reason="a real network")
    models = [pytest.param(path, marks=slow, id=path.stem) for path in real_models()]
    skipped = pytest.param(None, marks=pytest.mark.skip(reason=f"{REAL_MODELS} is not set"), id="none")
    metafunc.parametrize("real_model", models or [skipped], scope="module")
