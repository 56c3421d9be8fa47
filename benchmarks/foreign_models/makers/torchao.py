"""torchao, its quantizer of exported programs (PT2E), and what torch itself still quantizes (FX, eager)."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.foreign_models.makers import torch_modules
from benchmarks.foreign_models.samples import Modes, Sample, Write


def _program(quantizer: Callable[[], Any]) -> Write:
    """Quantize an exported program, as that quantizer says."""

    def write(sample: Sample) -> None:
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        given = torch_modules.inputs_of(sample)
        traced = torch.export.export(torch_modules.module_of(sample), given).module()
        prepared = prepare_pt2e(traced, quantizer())
        torch_modules.calibrate(prepared, sample)
        torch_modules.export_program(torch.export.export(convert_pt2e(prepared), given), sample)

    return write


def _xnnpack(**options: bool) -> Callable[[], Any]:
    def quantizer() -> Any:
        from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

        return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**options))

    return quantizer


def _x86() -> Any:
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    return x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())


def _tensors(config: Callable[[Any], Any]) -> Write:
    """Quantize the weights of a module in place, by ``quantize_``."""

    def write(sample: Sample) -> None:
        from torchao import quantization

        module = torch_modules.module_of(sample)
        quantization.quantize_(module, config(quantization))
        torch_modules.export_program(module, sample)

    return write


def _groups(quantization: Any) -> Any:
    granularity = quantization.PerGroup(32)
    return quantization.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=granularity)


def _fake_quantized(sample: Sample) -> None:
    """Quantization-aware training of torch itself: the traced module fake-quantizes, and TorchScript writes that."""
    from torch.ao import quantization
    from torch.ao.quantization.backend_config import get_tensorrt_backend_config
    from torch.ao.quantization.quantize_fx import prepare_qat_fx

    mapping = quantization.QConfigMapping().set_global(_symmetric(quantization))
    module = torch_modules.module_of(sample).train()
    backend = get_tensorrt_backend_config()
    prepared = prepare_qat_fx(module, mapping, torch_modules.inputs_of(sample), backend_config=backend)
    # Statistics of BatchNormalization stay; the observers see every input.
    prepared.eval()
    torch_modules.calibrate(prepared, sample)
    prepared.apply(quantization.disable_observer)
    torch_modules.export(prepared, sample)


def _symmetric(quantization: Any) -> Any:
    fake = quantization.FakeQuantize
    activation = fake.with_args(
        observer=quantization.MinMaxObserver,
        quant_min=-128,
        quant_max=127,
        dtype=torch.qint8,
        qscheme=torch.per_tensor_symmetric,
    )
    weight = fake.with_args(
        observer=quantization.PerChannelMinMaxObserver,
        quant_min=-128,
        quant_max=127,
        dtype=torch.qint8,
        qscheme=torch.per_channel_symmetric,
    )
    return quantization.QConfig(activation=activation, weight=weight)


def _traced(exporter: Callable[..., None]) -> Write:
    """FX quantization of torch itself, with the settings for x86."""

    def write(sample: Sample) -> None:
        from torch.ao.quantization import get_default_qconfig_mapping
        from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

        torch.backends.quantized.engine = "fbgemm"
        given = torch_modules.inputs_of(sample)
        prepared = prepare_fx(torch_modules.module_of(sample), get_default_qconfig_mapping("fbgemm"), given)
        torch_modules.calibrate(prepared, sample)
        exporter(convert_fx(prepared), sample)

    return write


def _eager(sample: Sample) -> None:
    from torch.ao import quantization

    torch.backends.quantized.engine = "fbgemm"
    module = quantization.QuantWrapper(torch_modules.module_of(sample)).eval()
    module.qconfig = quantization.get_default_qconfig("fbgemm")
    quantization.prepare(module, inplace=True)
    torch_modules.calibrate(module, sample)
    torch_modules.export(quantization.convert(module), sample)


MODES: Modes = {
    "pt2e_int8_conv": ("conv", _program(_xnnpack(is_per_channel=True))),
    "pt2e_int8_conv_per_tensor": ("conv", _program(_xnnpack(is_per_channel=False))),
    "pt2e_int8": ("block", _program(_xnnpack(is_per_channel=True))),
    "pt2e_dynamic": ("block", _program(_xnnpack(is_per_channel=True, is_dynamic=True))),
    "pt2e_x86_conv": ("conv", _program(_x86)),
    "pt2e_x86": ("block", _program(_x86)),
    "int8_weights": ("block", _tensors(lambda each: each.Int8WeightOnlyConfig(version=2))),
    "int8_dynamic": ("block", _tensors(lambda each: each.Int8DynamicActivationInt8WeightConfig(version=2))),
    "fp8_weights": ("block", _tensors(lambda each: each.Float8WeightOnlyConfig())),
    "int4_weights": ("block", _tensors(_groups)),
    "qat_conv": ("conv", _fake_quantized),
    "qat": ("block", _fake_quantized),
    "fx_conv": ("conv", _traced(torch_modules.export)),
    "fx_conv_dynamo": ("conv", _traced(torch_modules.export_program)),
    "eager_mlp": ("mlp", _eager),
}
"""The network and what writes its model, by mode."""
