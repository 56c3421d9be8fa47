"""Sony's Model Compression Toolkit on torch modules."""

import functools
from collections.abc import Iterator
from unittest import mock

import torch

from benchmarks.foreign_models.makers import torch_modules
from benchmarks.foreign_models.samples import Modes, Sample, Write
from benchmarks.networks.torchvision_operators import declare_operators


def _exported(quantization_format: str) -> Write:
    def write(sample: Sample) -> None:
        declare_operators()
        import model_compression_toolkit as mct

        def data() -> Iterator[list[torch.Tensor]]:
            for batch in torch_modules.batches_of(sample):
                yield [batch]

        module, _ = mct.ptq.pytorch_post_training_quantization(torch_modules.module_of(sample), data)
        # It asks for no exporter, and means TorchScript's, which was the default when it was written.
        exporter = functools.partial(torch.onnx.export, dynamo=False)
        kind = getattr(mct.exporter.QuantizationFormat, quantization_format)
        with mock.patch.object(torch.onnx, "export", exporter):
            mct.exporter.pytorch_export_model(
                module, str(sample.path), data, quantization_format=kind, onnx_opset_version=torch_modules.OPSET
            )

    return write


MODES: Modes = {
    "fake_quantized_conv": ("conv", _exported("FAKELY_QUANT")),
    "mctq_conv": ("conv", _exported("MCTQ")),
    "fake_quantized": ("block", _exported("FAKELY_QUANT")),
}
"""The network and what writes its model, by mode."""
