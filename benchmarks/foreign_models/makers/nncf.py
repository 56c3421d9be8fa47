"""NNCF, Intel's compression framework, on ONNX files."""

from typing import Any

import nncf
import onnx

from benchmarks.foreign_models.samples import Modes, Sample, Write


def _static(opset: int | None = None, **options: Any) -> Write:
    def write(sample: Sample) -> None:
        data = nncf.Dataset(list(sample.calibration()))
        onnx.save(nncf.quantize(sample.float_model(opset), data, **options), sample.path)

    return write


def _torch(strip: nncf.StripFormat | None = None, **options: Any) -> Write:
    """Quantize the torch module, and export what fake-quantizes."""

    def write(sample: Sample) -> None:
        from benchmarks.foreign_models.makers import torch_modules

        inputs = torch_modules.batches_of(sample)
        module = nncf.quantize(torch_modules.module_of(sample), nncf.Dataset(inputs), **options)
        if strip is not None:
            module = nncf.strip(module, strip_format=strip, example_input=inputs[0])
        torch_modules.export(module, sample)

    return write


def _weights(mode: nncf.CompressWeightsMode, **options: Any) -> Write:
    def write(sample: Sample) -> None:
        onnx.save(nncf.compress_weights(sample.float_model(21), mode=mode, **options), sample.path)

    return write


_Mode = nncf.CompressWeightsMode
MODES: Modes = {
    "int8_conv": ("conv", _static()),
    "int8_conv_mixed": ("conv", _static(preset=nncf.QuantizationPreset.MIXED)),
    "int8_conv_npu": ("conv", _static(target_device=nncf.TargetDevice.NPU)),
    "int8": ("block", _static(model_type=nncf.ModelType.TRANSFORMER)),
    "int8_smooth": (
        "block",
        _static(
            model_type=nncf.ModelType.TRANSFORMER,
            advanced_parameters=nncf.AdvancedQuantizationParameters(smooth_quant_alpha=0.5),
        ),
    ),
    "fp8": ("block", _static(19, mode=nncf.QuantizationMode.FP8_E4M3)),
    "torch_int8_conv": ("conv", _torch()),
    "torch_int8_conv_stripped": ("conv", _torch(nncf.StripFormat.NATIVE)),
    "torch_int8": ("block", _torch(nncf.StripFormat.NATIVE, model_type=nncf.ModelType.TRANSFORMER)),
    "weights_int8_sym": ("block", _weights(_Mode.INT8_SYM)),
    "weights_int8_asym": ("block", _weights(_Mode.INT8_ASYM)),
    "weights_int4_sym": ("block", _weights(_Mode.INT4_SYM, group_size=64, all_layers=True)),
    "weights_int4_asym": ("block", _weights(_Mode.INT4_ASYM, group_size=64, all_layers=True)),
    "weights_nf4": ("block", _weights(_Mode.NF4, group_size=64, all_layers=True)),
}
"""The network and what writes its model, by mode."""
