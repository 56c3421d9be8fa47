"""Writes networks as ONNX files with samples. Runs where torch, torchvision, timm and transformers are installed.

    python -m benchmarks.networks.export FOLDER [--samples 128] [NAME ...]

For each network and exporter ``FOLDER/NAME.EXPORTER.onnx``, and for each network ``NAME.calib.npz`` and
``NAME.test.npz``. ``--samples`` is the number of calibration samples, in place of that of the catalogue. What cannot
be written leaves ``NAME.EXPORTER.failed`` with the message. Nothing is downloaded.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.networks import catalogue
from benchmarks.networks.network import DYNAMO, Network, Sample, stacked
from benchmarks.networks.warm import SEED, warm

OPSETS = {"torchscript": 17, "dynamo": 20}


def main(words: Sequence[str]) -> None:
    """Write the networks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int)
    arguments = parser.parse_intermixed_args(words)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for network in catalogue.networks(arguments.names):
        write(
            network if arguments.samples is None else replace(network, calibrated_on=arguments.samples),
            arguments.folder,
        )


def write(network: Network, folder: Path) -> None:
    """Write one network by every exporter, with its samples."""
    random = np.random.default_rng(SEED)
    for part, count in (("calib", network.calibrated_on), ("test", network.tested_on)):
        np.savez(folder / f"{network.name}.{part}.npz", **stacked(network.sample(random) for _ in range(count)))
    sample = network.sample(random)
    for exporter in network.exporters:
        path = folder / f"{network.name}.{exporter}.onnx"
        failed = path.with_suffix(".failed")
        failed.unlink(missing_ok=True)
        try:
            _export(network, exporter, sample, path)
        except Exception as error:  # noqa: BLE001 - exporters raise what they like
            path.unlink(missing_ok=True)
            failed.write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
        print(f"{path.name}: {'failed' if failed.exists() else 'written'}", flush=True)


def _export(network: Network, exporter: str, sample: Sample, path: Path) -> None:
    module = module_of(network)
    given = {name: torch.from_numpy(array) for name, array in sample.items()}
    options: dict[str, Any] = {"input_names": list(given), "opset_version": OPSETS[exporter]}
    if exporter == DYNAMO:
        options |= {"dynamo": True, "external_data": False, "verbose": False}
        if network.dynamic:
            shapes = [dict.fromkeys(network.dynamic.get(name, {}), torch.export.Dim.AUTO) for name in given]
            options["dynamic_shapes"] = tuple(shapes)
    else:
        options |= {"dynamo": False, "dynamic_axes": network.dynamic}
    torch.onnx.export(module, tuple(given.values()), str(path), **options)


def module_of(network: Network) -> nn.Module:
    """Return the module of a network, with random weights from a seed and statistics of its data."""
    torch.manual_seed(SEED)
    module: nn.Module = network.make().eval()
    _wake(module)
    warm(module, network.sample)
    return module


def _wake(module: nn.Module) -> list[str]:
    """Give gains that start near 0 ordinary values, and return their names.

    LayerScale and the last BatchNormalization of a residual block start so, and training makes them grow. Before that
    the layers in front of them count for nothing, whatever quantizing does to them.
    """
    woken = []
    with torch.no_grad():
        for name, each in module.named_parameters():
            is_vector = each.numel() == max(each.shape, default=1)
            if is_vector and "bias" not in name and 0.01 > each.abs().max() == each.abs().min():
                each.copy_(0.5 * torch.exp(0.3 * torch.randn_like(each)))
                woken.append(name)
            elif not is_vector and not each.any():
                # The head of a vision transformer starts so, and every model with it has the same output.
                each.copy_(torch.randn_like(each) / each.shape[-1] ** 0.5)
                woken.append(name)
    return woken


if __name__ == "__main__":
    main(sys.argv[1:])
