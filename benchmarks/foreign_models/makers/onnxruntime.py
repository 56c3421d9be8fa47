"""ONNX Runtime's quantizers: static with Q/DQ or with operators on codes, dynamic, and of weights alone."""

import tempfile
from pathlib import Path
from typing import Any

import onnx
from onnxruntime import quantization
from onnxruntime.quantization import QuantFormat, QuantType, shape_inference

from benchmarks.foreign_models.samples import Modes, Reader, Sample, Write


def _prepared(sample: Sample, opset: int | None = None) -> onnx.ModelProto:
    """Return the float model after the tool's own preprocessing, which it asks for."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "prepared.onnx"
        shape_inference.quant_pre_process(sample.float_model(opset), str(path))
        return onnx.load(path)


def _static(
    activation: QuantType = QuantType.QInt8,
    weight: QuantType = QuantType.QInt8,
    quant_format: QuantFormat = QuantFormat.QDQ,
    *,
    opset: int | None = None,
    **options: Any,
) -> Write:
    def write(sample: Sample) -> None:
        model = _prepared(sample, opset)
        kinds = {"activation_type": activation, "weight_type": weight, "quant_format": quant_format}
        quantization.quantize_static(model, str(sample.path), Reader(sample.calibration()), **kinds, **options)

    return write


def _dynamic(**options: Any) -> Write:
    def write(sample: Sample) -> None:
        quantization.quantize_dynamic(_prepared(sample), str(sample.path), **options)

    return write


def _n_bits(
    *, symmetric: bool = True, bits: int = 4, quant_format: QuantFormat = QuantFormat.QOperator, **more: Any
) -> Any:
    def write(sample: Sample) -> None:
        from onnxruntime.quantization.matmul_nbits_quantizer import (
            DefaultWeightOnlyQuantConfig,
            MatMulNBitsQuantizer,
        )

        config = DefaultWeightOnlyQuantConfig(
            block_size=32, is_symmetric=symmetric, bits=bits, quant_format=quant_format, **more
        )
        made = MatMulNBitsQuantizer(sample.float_model(), algo_config=config)
        made.process()
        made.model.save_model_to_file(str(sample.path), use_external_data_format=False)

    return write


SYMMETRIC = {"extra_options": {"ActivationSymmetric": True, "WeightSymmetric": True}}
MODES: Modes = {
    "qdq_uint8_conv": ("conv", _static(QuantType.QUInt8, QuantType.QUInt8)),
    "qdq_uint8": ("block", _static(QuantType.QUInt8, QuantType.QUInt8)),
    "qdq_u8s8_conv": ("conv", _static(QuantType.QUInt8, per_channel=True)),
    "qdq_int8_conv": ("conv", _static(per_channel=True, **SYMMETRIC)),
    "qdq_int8": ("block", _static(per_channel=True, **SYMMETRIC)),
    "qdq_int8_asymmetric": ("block", _static()),
    "qdq_16_bit": ("block", _static(QuantType.QUInt16)),
    "qdq_16_bit_conv": ("conv", _static(QuantType.QInt16, **SYMMETRIC)),
    "qdq_int4_weights": ("block", _static(QuantType.QInt8, QuantType.QInt4, per_channel=True, **SYMMETRIC)),
    "qdq_fp8": (
        "block",
        _static(
            QuantType.QFLOAT8E4M3FN,
            QuantType.QFLOAT8E4M3FN,
            calibrate_method=quantization.CalibrationMethod.Distribution,
            opset=19,
            op_types_to_quantize=["MatMul", "Gemm"],
        ),
    ),
    "qoperator_conv": ("conv", _static(QuantType.QUInt8, quant_format=QuantFormat.QOperator)),
    "qoperator_conv_s8": ("conv", _static(quant_format=QuantFormat.QOperator, per_channel=True)),
    "qoperator": ("block", _static(QuantType.QUInt8, quant_format=QuantFormat.QOperator)),
    "dynamic_conv": ("conv", _dynamic(weight_type=QuantType.QUInt8)),
    "dynamic": ("block", _dynamic()),
    "dynamic_per_channel": ("block", _dynamic(per_channel=True)),
    "nbits_symmetric": ("block", _n_bits()),
    "nbits_asymmetric": ("block", _n_bits(symmetric=False)),
    "nbits_8": ("block", _n_bits(bits=8)),
    "nbits_accuracy_4": ("block", _n_bits(accuracy_level=4)),
    "nbits_qdq": ("block", _n_bits(quant_format=QuantFormat.QDQ)),
    "nbits_qdq_asymmetric": ("block", _n_bits(symmetric=False, quant_format=QuantFormat.QDQ)),
}
"""The network and what writes its model, by mode."""
