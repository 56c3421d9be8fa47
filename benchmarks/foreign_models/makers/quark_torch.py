"""AMD Quark on torch modules."""

import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.foreign_models.makers import torch_modules
from benchmarks.foreign_models.samples import Modes, Sample, Write
from benchmarks.networks.torchvision_operators import declare_operators

declare_operators()
from quark.torch import ModelQuantizer, export_onnx  # noqa: E402 - it imports torchvision
from quark.torch.quantization.config import config as specs  # noqa: E402

SETTINGS = {"round_method": "half_even", "scale_type": "float", "is_dynamic": False}


def _quantized(weight: Any, inputs: Any = None, opset: int = torch_modules.OPSET) -> Write:
    def write(sample: Sample) -> None:
        layers = specs.QLayerConfig(weight=weight(), input_tensors=inputs() if inputs else None)
        quantizer = ModelQuantizer(specs.QConfig(global_quant_config=layers))
        batches = torch_modules.batches_of(sample)
        module = quantizer.freeze(quantizer.quantize_model(torch_modules.module_of(sample), batches))
        given = torch_modules.inputs_of(sample)
        names = {"input_names": list(sample.first()), "output_names": ["y"]}
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            export_onnx(module, folder, given, opset, **names)
            Path(folder, "quark_model.onnx").rename(sample.path)

    return write


def _activation() -> Any:
    return specs.Int8PerTensorSpec(observer_method="min_max", symmetric=True, **SETTINGS).to_quantization_spec()


def _channels() -> Any:
    return specs.Int8PerChannelSpec(ch_axis=0, symmetric=True, **SETTINGS).to_quantization_spec()


def _unsigned() -> Any:
    return specs.Uint8PerTensorSpec(observer_method="min_max", symmetric=False, **SETTINGS).to_quantization_spec()


def _groups() -> Any:
    return specs.Int4PerGroupSpec(ch_axis=-1, group_size=128, symmetric=True, **SETTINGS).to_quantization_spec()


def _fp8() -> Any:
    return specs.FP8E4M3PerTensorSpec(observer_method="min_max", is_dynamic=False).to_quantization_spec()


MODES: Modes = {
    "int8_conv": ("conv", _quantized(_channels, _activation)),
    "int8": ("block", _quantized(_channels, _activation)),
    "uint8": ("block", _quantized(_channels, _unsigned)),
    "int4_groups": ("block", _quantized(_groups)),
    "fp8": ("block", _quantized(_fp8, _fp8, 19)),
}
"""The network and what writes its model, by mode."""
