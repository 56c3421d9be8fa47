"""Compute capabilities: spelling, defaults, and which of them can hold a type; releases."""

import importlib.metadata

import pytest
from support.engine_models import FP4, FP8, INT8, matmul

from qdqtool.engines.tensorrt import gpus
from qdqtool.engines.tensorrt.backends.tensorrt import BUILDER as TENSORRT
from qdqtool.engines.tensorrt.backends.tensorrt_rtx import BUILDER as RTX
from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model


@pytest.mark.parametrize("text", ["8.6,8.9", "sm86,sm89", "SM_89, sm_86", "86,89,8.9", "8.9,,8.6"])
def test_spellings(text):
    assert gpus.parse(text) == ("8.6", "8.9")
    assert gpus.parse(f"12.0,{text}") == ("8.6", "8.9", "12.0")


@pytest.mark.parametrize("text", ["", ",", "ampere", "8.6.1", "8", "-8.6"])
def test_what_is_no_compute_capability(text):
    with pytest.raises(UsageError, match="compute"):
        gpus.parse(text)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(INT8, ("8.0", "8.6", "8.9", "12.0", "12.1")), (FP8, ("8.9", "12.0", "12.1")), (FP4, ("12.0", "12.1"))],
)
def test_the_default_leaves_out_what_lacks_a_type(kind, expected):
    model = Model(matmul(kind=kind, x_kind=None, axis=None, opset=23))
    assert RTX.resolve_targets((), model) == expected


def test_a_named_target_that_lacks_a_type_is_refused_with_those_that_have_it():
    with pytest.raises(UsageError, match=r"float8e4m3fn, which compute capability 8\.6 cannot") as caught:
        RTX.resolve_targets(("8.6", "8.9"), Model(matmul(kind=FP8, x_kind=FP8)))
    assert "8.9,12.0,12.1" in str(caught.value.hint)


def test_an_unknown_target_is_refused():
    with pytest.raises(UsageError, match=r"does not support compute capability 9\.0"):
        RTX.resolve_targets(("9.0",), Model(matmul()))


def test_tensorrt_builds_for_the_gpu_in_the_machine():
    assert TENSORRT.resolve_targets((), Model(matmul())) == ()
    with pytest.raises(UsageError, match="does not accept --compute-capabilities"):
        TENSORRT.resolve_targets(("8.6",), Model(matmul()))


@pytest.mark.parametrize(
    ("version", "release"), [("10.8.0.43", "tensorrt-10.8"), ("11.4.0.106", "tensorrt-11.4"), ("12.0.0", "tensorrt")]
)
def test_models_are_validated_for_the_release_that_is_installed(
    version: str, release: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)

    assert TENSORRT.release == release
    assert RTX.release == "tensorrt-rtx"


def test_a_release_that_is_not_known_is_the_target_itself(monkeypatch: pytest.MonkeyPatch):
    def unknown(_: str) -> str:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "version", unknown)

    assert TENSORRT.release == "tensorrt"
