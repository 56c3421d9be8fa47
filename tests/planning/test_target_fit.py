"""Which modes a target takes."""

import pytest

from qdqtool.errors import UsageError
from qdqtool.planning import modes
from qdqtool.planning.target_fit import require_mode, taken_modes


@pytest.mark.parametrize("target", ["onnx", "ort-cpu", "tensorrt", "tensorrt-rtx"])
def test_the_modes_that_a_target_takes_are_those_that_it_does_not_refuse(target):
    taken = taken_modes(target)
    assert modes.DEFAULT in taken
    for name in modes.units():
        if name in taken:
            require_mode(name, target)
        else:
            with pytest.raises(UsageError, match=target):
                require_mode(name, target)


def test_tensorrt_takes_no_power_of_two_scales_and_onnx_does():
    assert "mxfp8" not in taken_modes("tensorrt")
    assert "mxfp8" in taken_modes("onnx")
