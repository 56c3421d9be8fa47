"""Versions are compared one by one, and the message names both."""

import numpy as np
import onnxruntime
import pytest

import qdqtool
from qdqtool.errors import CapabilityError
from qdqtool.quantization.cluster.machine import PROCESSOR, require_versions, this_machine

THERE = "in the environment of the worker: `pip install numpy==2`"
WORKER = "tcp://10.0.0.7:1"


def test_this_machine():
    here = this_machine()
    versions = [here["qdqtool"], here["onnxruntime"], here["numpy"]]
    assert versions == [qdqtool.__version__, onnxruntime.__version__, np.__version__]
    assert "CPU" in str(here[PROCESSOR])
    require_versions(WORKER, here, here)
    require_versions(WORKER, {**here, PROCESSOR: "another"}, here)


@pytest.mark.parametrize(
    ("theirs", "ours", "has", "hint"),
    [
        ("1", "2", "has numpy 1, and this machine has numpy 2;", THERE),
        (None, "2", "has no numpy, and this machine has numpy 2;", THERE),
        ("1", None, "has numpy 1, and this machine has no numpy;", "on this machine: `pip install numpy==1`"),
    ],
)
def test_a_difference_names_the_worker_and_both_versions(theirs: str | None, ours: str | None, has: str, hint: str):
    here = {**this_machine(), "numpy": ours}
    with pytest.raises(CapabilityError) as caught:
        require_versions(WORKER, {**here, "numpy": theirs}, here)
    assert f"worker {WORKER} {has}" in caught.value.message
    assert caught.value.hint == hint
