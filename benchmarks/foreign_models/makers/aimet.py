"""AIMET on ONNX files: its simulation, exported with Q/DQ nodes."""

from collections.abc import Callable
from typing import Any

import aimet_onnx
import onnx
from aimet_onnx import quantsim

from benchmarks.foreign_models.samples import Modes, Sample


def _simulated(sample: Sample, **options: Any) -> Any:
    return aimet_onnx.QuantizationSimModel(sample.float_model(), providers=["CPUExecutionProvider"], **options)


def _qdq(change: Callable[[Any], None] | None = None, exported: dict[str, Any] | None = None, **options: Any) -> Any:
    def write(sample: Sample) -> None:
        simulated = _simulated(sample, **options)
        if change is not None:
            change(simulated)
        simulated.compute_encodings(list(sample.calibration()))
        onnx.save(simulated.to_onnx_qdq(**(exported or {})), sample.path)

    return write


def _blocks(simulated: Any) -> None:
    quantsim.set_blockwise_quantization_for_weights(simulated, ("MatMul", "Gemm"), 4, symmetric=True, block_size=32)


def _grouped_blocks(simulated: Any) -> None:
    quantsim.set_grouped_blockwise_quantization_for_weights(simulated, ("MatMul", "Gemm"), 4, 8, 32)


SIGNED = {"force_activation_as": "signed"}
MODES: Modes = {
    "int8_conv": ("conv", _qdq()),
    "int8_conv_signed": ("conv", _qdq(exported=SIGNED)),
    "int8_conv_codes": ("conv", _qdq(exported={"prequantize_constants": True, "export_int32_bias": True})),
    "int8": ("block", _qdq()),
    "w8a16": ("block", _qdq(activation_type="int16")),
    "int4_weights": ("block", _qdq(param_type="int4", activation_type="int8", exported=SIGNED)),
    "int4_blocks": ("block", _qdq(_blocks, activation_type="float16")),
    "int4_blocks_a8": ("block", _qdq(_blocks, exported={"prequantize_constants": True})),
    "lpbq": ("block", _qdq(_grouped_blocks, activation_type="int16")),
    "fp8": ("block", _qdq(param_type="float8e4m3fn", activation_type="float8e4m3fn")),
}
"""The network and what writes its model, by mode."""
