"""Brevitas: networks with quantized layers, exported as QCDQ and as QONNX."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.foreign_models.makers import torch_modules
from benchmarks.foreign_models.samples import Modes, Sample, Write

Export = Callable[[torch.nn.Module, Sample], None]


def _qcdq(opset: int = torch_modules.OPSET, **options: Any) -> Export:
    def export(module: torch.nn.Module, sample: Sample) -> None:
        from brevitas.export import export_onnx_qcdq

        torch_modules.export(module, sample, opset, by=export_onnx_qcdq, **options)

    return export


def _qonnx(module: torch.nn.Module, sample: Sample) -> None:
    from brevitas.export import export_qonnx

    torch_modules.export(module, sample, by=export_qonnx)


def _layerwise(export: Export, *, weight_bits: int = 8, per_channel: bool = True, asymmetric: bool = False) -> Any:
    """Replace each layer with weights by one that quantizes its input and its weight."""

    def write(sample: Sample) -> None:
        from brevitas import nn as quantized
        from brevitas.graph.calibrate import calibration_mode
        from brevitas.graph.quantize import layerwise_quantize
        from brevitas.quant import (
            Int8ActPerTensorFloat,
            Int8WeightPerChannelFloat,
            Int8WeightPerTensorFloat,
            ShiftedUint8ActPerTensorFloat,
        )

        options = {
            "weight_quant": Int8WeightPerChannelFloat if per_channel else Int8WeightPerTensorFloat,
            "weight_bit_width": weight_bits,
            "input_quant": ShiftedUint8ActPerTensorFloat if asymmetric else Int8ActPerTensorFloat,
            "bias_quant": None,
            "return_quant_tensor": False,
        }
        layers = {torch.nn.Conv2d: quantized.QuantConv2d, torch.nn.Linear: quantized.QuantLinear}
        chosen = {kind: (made, dict(options)) for kind, made in layers.items()}
        module = layerwise_quantize(torch_modules.module_of(sample), chosen).eval()
        with calibration_mode(module):
            torch_modules.calibrate(module, sample)
        with torch.no_grad():
            export(module, sample)

    return write


def _whole_graph(export: Export) -> Write:
    """Quantize the whole graph, biases too, as the tool does for integer hardware."""

    def write(sample: Sample) -> None:
        from brevitas.graph.calibrate import calibration_mode
        from brevitas.graph.quantize import preprocess_for_quantize, quantize

        given = torch_modules.inputs_of(sample)
        traced = preprocess_for_quantize(torch_modules.module_of(sample), trace_model=True)
        module = quantize(traced)
        with calibration_mode(module):
            torch_modules.calibrate(module, sample)
        with torch.no_grad():
            module(*given)
            export(module.eval(), sample)

    return write


MODES: Modes = {
    "int8_conv": ("conv", _layerwise(_qcdq())),
    "int8_conv_per_tensor": ("conv", _layerwise(_qcdq(), per_channel=False)),
    "int8_conv_asymmetric": ("conv", _layerwise(_qcdq(), asymmetric=True)),
    "int8_conv_graph": ("conv", _whole_graph(_qcdq())),
    "int8_conv_dynamo": ("conv", _layerwise(_qcdq(18, dynamo=True, external_data=False))),
    "int8_conv_qonnx": ("conv", _layerwise(_qonnx)),
    "int4_conv": ("conv", _layerwise(_qcdq(), weight_bits=4)),
    "int8": ("block", _layerwise(_qcdq())),
    "int4": ("block", _layerwise(_qcdq(), weight_bits=4)),
    "int4_opset_21": ("block", _layerwise(_qcdq(21), weight_bits=4)),
    "int4_qonnx": ("block", _layerwise(_qonnx, weight_bits=4)),
}
"""The network and what writes its model, by mode."""
