"""Shared fixtures."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("no deadline")

os.environ.pop("COLUMNS", None)  # pytest-xdist exports a width, which reports would be wrapped to

REAL_MODELS = "QDQTOOL_REAL_MODELS"


def real_models() -> list[Path]:
    """The real models to try everything on; empty when the folder is not named."""
    folder = os.environ.get(REAL_MODELS)
    return sorted(Path(folder).glob("*.onnx")) if folder else []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that ask for ``real_model`` once for each real model, or skip them visibly."""
    if "real_model" not in metafunc.fixturenames:
        return
    models = real_models()
    skipped = pytest.param(None, marks=pytest.mark.skip(reason=f"{REAL_MODELS} is not set"))
    metafunc.parametrize(
        "real_model", models or [skipped], ids=[path.stem for path in models] or ["none"], scope="module"
    )
