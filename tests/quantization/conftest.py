"""Fixtures of the tests of quantization."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.small import conv_model
from support.trt_verdict import TrtOracle


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The file of a model of two convolutions."""
    onnx.save(conv_model(), tmp_path / "float.onnx")
    return tmp_path / "float.onnx"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four samples for that model."""
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(2).normal(size=(4, 3, 8, 8)).astype(np.float32))
    return tmp_path / "data.npz"


@pytest.fixture(scope="module")
def oracle() -> Iterator[TrtOracle]:
    """TensorRT for RTX, which builds one model after another."""
    pytest.importorskip("tensorrt_rtx")
    with closing(TrtOracle()) as judge:
        yield judge
