"""Compute capabilities: spelling, defaults, and which of them can hold a type; releases."""

import importlib.metadata

import pytest
from support.engine_models import FP4, FP8, INT8, matmul

from qdqtool.engines.tensorrt import gpus
from qdqtool.engines.tensorrt.backends.tensorrt import BUILDER as TENSORRT
from qdqtool.engines.tensorrt.backends.tensorrt_rtx import BUILDER as RTX
from qdqtool.errors import UsageError
from qdqtool.models import targets
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


@pytest.mark.parametrize(
    ("asked", "device", "more"),
    [
        ("7.0", "", False),
        ("8.7", r" \(Jetson Orin\)", True),
        ("9.0", r" \(Hopper\)", True),
        ("10.0", r" \(Blackwell of data centers\)", True),
        ("11.0", r" \(Jetson Thor\)", True),
    ],
)
def test_a_gpu_of_another_product_is_refused_with_that_product(asked: str, device: str, more: bool):
    with pytest.raises(UsageError, match=f"RTX cannot build for compute capability {asked}{device}$") as caught:
        RTX.resolve_targets((asked,), Model(matmul()))

    hint = str(caught.value.hint)
    assert hint.startswith("it builds for 7.5, 8.0, 8.6, 8.9, 12.0, 12.1")
    assert ("TensorRT builds for this GPU" in hint) == more
    assert (targets.get("tensorrt").buildable(gpus.number(asked)) is None) or not more


def test_the_target_and_the_builder_know_the_same_gpus():
    assert {gpus.number(name) for name in RTX.capabilities} == targets.get(RTX.target).known_compute_capabilities


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
