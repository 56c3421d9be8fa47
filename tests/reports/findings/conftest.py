"""Reports of ``validate`` that every format renders."""

from pathlib import Path

import onnx
import pytest

from qdqtool.jobs.validate import validate_files
from qdqtool.linting import rules
from qdqtool.linting.policy import Policy
from qdqtool.linting.report import ValidateReport

HOSTILE = "\x1b[31m[bold]n\nm\u202e\x00\ufffe::set-output,%0A|<b>`x`@you[/bold]\r::error::no"
TARGETS = ("tensorrt", "ort-cpu")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with models, and the working directory in a folder of it."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path / "models")
    return tmp_path / "models"


def saved(folder: Path, name: str, code: str) -> Path:
    onnx.save(rules.get(code).INVALID[0].model(), folder / name)
    return Path(name)


@pytest.fixture
def report(folder: Path) -> ValidateReport:
    """An error, a warning, a clean model and an unreadable one."""
    onnx.save(rules.get("QP101").VALID[0].model(), folder / "good.onnx")
    paths = [
        saved(folder, "warn ä.onnx", "QL302"),
        saved(folder, "bad.onnx", "QP101"),
        Path("good.onnx"),
        Path("none.onnx"),
    ]
    return validate_files(paths, Policy(targets=TARGETS))


@pytest.fixture
def hostile(folder: Path) -> ValidateReport:
    """Every name of the model is hostile, and so is that of the file, as far as file systems allow."""
    model = rules.get("QP101").INVALID[0].model()
    for tensor in model.graph.initializer:
        tensor.name += HOSTILE
    for node in model.graph.node:
        node.name = HOSTILE + node.output[0]
        node.input[:] = [f"{name}{HOSTILE}" if name in {"ws", "w", "s", "z", "wz"} else name for name in node.input]
    name = "%0A::error::,x|[bold]\x1b[31m<b>.onnx"
    onnx.save(model, folder / "plain.onnx")
    (folder / "plain.onnx").rename(folder / name.replace("/", ""))
    return validate_files([Path(name)], Policy(targets=TARGETS, select=("QP101",)))
