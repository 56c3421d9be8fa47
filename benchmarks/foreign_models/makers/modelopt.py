"""NVIDIA Model Optimizer: its quantizer of torch modules, exported as it is and rewritten, and that of ONNX files."""

from typing import Any

import numpy as np
import torch

from benchmarks.foreign_models.makers import torch_modules
from benchmarks.foreign_models.samples import Modes, Sample, Write

CONFIGS = {
    "int8": "INT8_DEFAULT_CFG",
    "smoothquant": "INT8_SMOOTHQUANT_CFG",
    "int8_weights": "INT8_WEIGHT_ONLY_CFG",
    "fp8": "FP8_DEFAULT_CFG",
    "int4_blocks": "INT4_BLOCKWISE_WEIGHT_ONLY_CFG",
    "int4_awq": "INT4_AWQ_CFG",
    "w4a8_awq": "W4A8_AWQ_BETA_CFG",
    "nvfp4": "NVFP4_DEFAULT_CFG",
    "mxfp8": "MXFP8_DEFAULT_CFG",
    "mxfp4": "MXFP4_DEFAULT_CFG",
    "w4a8_nvfp4_fp8": "W4A8_NVFP4_FP8_CFG",
}
HALF = ("nvfp4", "mxfp8")
"""Configurations whose exporter writes float16 around what it quantizes."""

CONVOLUTIONS = ("int8", "fp8")


def _quantized(sample: Sample, config: str) -> torch.nn.Module:
    from modelopt.torch import quantization
    from modelopt.torch.quantization import tensor_quant

    # What simulates formats with blocks needs a GPU. Nothing that is written depends on what it returns: ranges are
    # measured without it, and the exporter asks for its name and its options.
    tensor_quant.dynamic_block_quantize_op = lambda values, *_: values.clone()
    module = torch_modules.module_of(sample)
    chosen = getattr(quantization, CONFIGS[config])
    return quantization.quantize(module, chosen, lambda each: torch_modules.calibrate(each, sample))


def _raw(config: str) -> Write:
    def write(sample: Sample) -> None:
        opset = 19 if config == "fp8" else torch_modules.OPSET
        torch_modules.export(_quantized(sample, config), sample, opset)

    return write


def _deployed(config: str, *, half: bool = False, **options: Any) -> Write:
    """Export and rewrite as the tool does for TensorRT.

    Args:
        config: A name in ``CONFIGS``.
        half: Convert the module to float16. The tool autocasts to it on a GPU, and rewrites int4 weights only so.
        options: Those of the exporter.
    """

    def write(sample: Sample) -> None:
        from modelopt.torch._deploy.utils import OnnxBytes, get_onnx_bytes_and_metadata

        module, given = _quantized(sample, config), torch_modules.inputs_of(sample)
        if half:
            module, given = module.half(), tuple(each.half() for each in given)
        stored, _ = get_onnx_bytes_and_metadata(module, given, **options)
        sample.path.write_bytes(next(iter(OnnxBytes.from_bytes(stored).onnx_model.values())))

    return write


def _of_onnx(mode: str, **options: Any) -> Write:
    def write(sample: Sample) -> None:
        from modelopt.onnx import quantization

        inputs = list(sample.calibration())
        data = {name: np.concatenate([each[name] for each in inputs]) for name in inputs[0]}
        quantization.quantize(
            str(sample.float_path),
            quantize_mode=mode,
            calibration_data=data,
            calibration_eps=["cpu"],
            output_path=str(sample.path),
            **options,
        )

    return write


MODES: Modes = {
    **{f"torch_{config}": ("block", _raw(config)) for config in CONFIGS},
    **{f"torch_{config}_conv": ("conv", _raw(config)) for config in CONVOLUTIONS},
    **{f"deploy_{config}": ("block", _deployed(config)) for config in CONFIGS},
    **{f"deploy_{config}_conv": ("conv", _deployed(config)) for config in CONVOLUTIONS},
    **{f"deploy_{config}_fp16": ("block", _deployed(config, weights_dtype="fp16")) for config in ("int8", "fp8")},
    "deploy_int4_awq_fp16": ("block", _deployed("int4_awq", half=True, weights_dtype="fp16")),
    **{f"deploy_{config}_fp16": ("block", _deployed(config, half=True)) for config in HALF},
    "deploy_int8_dq_only": ("block", _deployed("int8", dq_only=True)),
    "onnx_int8_conv": ("conv", _of_onnx("int8", high_precision_dtype="fp32")),
    "onnx_int8_conv_fp16": ("conv", _of_onnx("int8", high_precision_dtype="fp16")),
    "onnx_int8_conv_entropy": ("conv", _of_onnx("int8", high_precision_dtype="fp32", calibration_method="entropy")),
    "onnx_int8_dq_only": ("conv", _of_onnx("int8", high_precision_dtype="fp32", dq_only=True)),
    "onnx_int8": ("block", _of_onnx("int8", high_precision_dtype="fp32")),
    "onnx_int8_fp16": ("block", _of_onnx("int8", high_precision_dtype="fp16")),
    "onnx_fp8_conv": ("conv", _of_onnx("fp8", high_precision_dtype="fp16")),
    "onnx_fp8": ("block", _of_onnx("fp8", high_precision_dtype="fp16")),
    "onnx_fp8_fp32": ("block", _of_onnx("fp8", high_precision_dtype="fp32")),
    "onnx_int4_rtn_dq": ("block", _of_onnx("int4", calibration_method="rtn_dq", high_precision_dtype="fp32")),
    "onnx_int4_rtn": ("block", _of_onnx("int4", calibration_method="rtn", high_precision_dtype="fp32")),
    "onnx_int4_awq_clip": ("block", _of_onnx("int4", calibration_method="awq_clip", high_precision_dtype="fp16")),
    "onnx_int4_awq_lite": ("block", _of_onnx("int4", calibration_method="awq_lite", high_precision_dtype="fp16")),
    "onnx_int4_zero_point": (
        "block",
        _of_onnx("int4", calibration_method="awq_lite", high_precision_dtype="fp16", use_zero_point=True),
    ),
}
"""The network and what writes its model, by mode."""
