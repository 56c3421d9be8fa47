"""The Neural Compressor for ONNX, of Intel."""

from typing import Any

import onnx
from onnx_neural_compressor import data_reader
from onnx_neural_compressor.quantization import QuantFormat, QuantType, algorithm_entry, config, quantize
from onnxruntime import GraphOptimizationLevel

from benchmarks.foreign_models.samples import Modes, Reader, Sample, Write


class _Reader(Reader, data_reader.CalibrationDataReader):
    """Its own base class is asked for."""


def _static(quant_format: QuantFormat, **options: Any) -> Write:
    def write(sample: Sample) -> None:
        reader = _Reader(sample.calibration())
        chosen = config.StaticQuantConfig(calibration_data_reader=reader, quant_format=quant_format, **options)
        quantize(str(sample.float_path), str(sample.path), chosen)

    return write


def _dynamic(sample: Sample) -> None:
    chosen = config.DynamicQuantConfig(weight_type=QuantType.QInt8)
    # Optimizing makes Gemm of MatMul, and this configuration quantizes no Gemm.
    quantize(str(sample.float_path), str(sample.path), chosen, GraphOptimizationLevel.ORT_DISABLE_ALL)


def _weights(method: str, **options: Any) -> Write:
    def write(sample: Sample) -> None:
        kind = {"rtn": config.RTNConfig, "gptq": config.GPTQConfig, "awq": config.AWQConfig}[method]
        readers = [] if method == "rtn" else [_Reader(sample.calibration())]
        entry = getattr(algorithm_entry, f"{method}_quantize_entry")
        onnx.save(entry(str(sample.float_path), kind(**options), *readers), sample.path)

    return write


INT8 = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
MODES: Modes = {
    "qdq_conv": ("conv", _static(QuantFormat.QDQ)),
    "qdq_conv_s8": ("conv", _static(QuantFormat.QDQ, per_channel=True, **INT8)),
    "qdq": ("block", _static(QuantFormat.QDQ)),
    "smooth_quant": ("block", _static(QuantFormat.QDQ, extra_options={"SmoothQuant": True})),
    "qoperator_conv": ("conv", _static(QuantFormat.QOperator)),
    "qoperator": ("block", _static(QuantFormat.QOperator)),
    "dynamic": ("block", _dynamic),
    "rtn": ("block", _weights("rtn")),
    "rtn_asymmetric": ("block", _weights("rtn", weight_sym=False)),
    "gptq": ("block", _weights("gptq")),
    "awq": ("block", _weights("awq")),
}
"""The network and what writes its model, by mode."""
