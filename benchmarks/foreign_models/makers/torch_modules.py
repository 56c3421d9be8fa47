"""What makers that quantize torch modules share: inputs as tensors, and both exporters. Needs torch."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.foreign_models import networks
from benchmarks.foreign_models.samples import Sample

OPSET = 17


def module_of(sample: Sample) -> torch.nn.Module:
    """Return the network of a sample."""
    return networks.make(sample.network)


def inputs_of(sample: Sample) -> tuple[torch.Tensor, ...]:
    """Return one input, in the order of the arguments."""
    return tuple(torch.from_numpy(array) for array in sample.first().values())


def batches_of(sample: Sample) -> list[torch.Tensor]:
    """Return every input to calibrate on, of a network with one argument."""
    return [torch.from_numpy(next(iter(arrays.values()))) for arrays in sample.calibration()]


def calibrate(module: torch.nn.Module, sample: Sample) -> None:
    """Run every input that is calibrated on."""
    with torch.no_grad():
        for arrays in sample.calibration():
            module(*(torch.from_numpy(array) for array in arrays.values()))


def export(
    module: Any, sample: Sample, opset: int = OPSET, by: Callable[..., Any] = torch.onnx.export, **options: Any
) -> None:
    """Write a module with the TorchScript exporter, by a function that takes what ``torch.onnx.export`` takes."""
    names = {"input_names": list(sample.first()), "output_names": ["y"]}
    by(module, inputs_of(sample), str(sample.path), **{"dynamo": False, "opset_version": opset, **names, **options})


def export_program(module: Any, sample: Sample) -> None:
    """Write a module or a program with the exporter that traces programs."""
    export(module, sample, 20, dynamo=True, external_data=False, verbose=False)
