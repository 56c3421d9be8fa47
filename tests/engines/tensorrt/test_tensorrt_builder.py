"""The builder class around its child process, with a stand-in for TensorRT that has a GPU."""

import dataclasses
from pathlib import Path

import pytest
from support.engine_models import conv, save
from support.paths import ROOT

from qdqtool.engines.tensorrt.backends.tensorrt import BUILDER
from qdqtool.engines.tensorrt.builder import Built, EngineRequest
from qdqtool.models.graph.io.load import load_model

SAMPLES = Path(__file__).parent / "data" / "inspector"


def build(folder: Path, inspected: str | None) -> Built:
    """Build a model whose engine is inspected to be ``inspected``; None where it cannot be loaded."""
    model = load_model(save(conv(), folder))
    if inspected is not None:
        (folder / "inspector.json").write_text(inspected)
    builder = dataclasses.replace(BUILDER, module="support.pretended_inspector")
    built = builder.build(EngineRequest(model=model, engine=folder / "e.engine"))
    assert (folder / "e.engine").read_bytes() == b"engine"
    return built


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))


def test_kernels_come_from_the_inspector(tmp_path: Path):
    built = build(tmp_path, (SAMPLES / "11.json").read_text())
    assert (built.version, built.evidence, built.warnings) == ("11.9.0", "inspector", ())
    assert [kernel.name for kernel in built.kernels] == ["mm_myl0_1", "signal_1"]


def test_an_unknown_shape_is_a_warning_and_no_table(tmp_path: Path):
    built = build(tmp_path, '{"Layers": {"0": "conv"}}')
    assert (built.evidence, built.kernels) == ("none", ())
    assert built.layer_dump == '{"Layers": {"0": "conv"}}'
    (warning,) = built.warnings
    assert warning == (
        "cannot read the inspector's output of TensorRT 11.9.0: Expected `array`, got `object` - at `$.Layers`; the "
        "engine was built, but the types in which its nodes run are unknown (--export-layer-info FILE keeps the output)"
    )


def test_an_engine_that_cannot_be_loaded_is_a_warning(tmp_path: Path):
    built = build(tmp_path, None)
    assert (built.evidence, built.kernels) == ("none", ())
    assert built.warnings == (
        "TensorRT built the engine but did not load it: the types in which its nodes run are unknown",
    )
