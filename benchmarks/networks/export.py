"""Writes networks as ONNX files with samples. Runs where torch, torchvision, timm and transformers are installed.

    python -m benchmarks.networks.export FOLDER [NAME ...]

For each network and exporter ``FOLDER/NAME.EXPORTER.onnx``, and for each network ``NAME.calib.npz`` and
``NAME.test.npz``. What cannot be written leaves ``NAME.EXPORTER.failed`` with the message. Nothing is downloaded.
"""

import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.networks import catalogue
from benchmarks.networks.network import DYNAMO, Network, Sample

SEED, WARM_BATCHES, TEST_SAMPLES = 7, 4, 8
OPSETS = {"torchscript": 17, "dynamo": 20}


def main(words: Sequence[str]) -> None:
    """Write the networks that are named, or all."""
    folder = Path(words[0])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for network in catalogue.networks(words[1:]):
        write(network, folder)


def write(network: Network, folder: Path) -> None:
    """Write one network by every exporter, with its samples."""
    random = np.random.default_rng(SEED)
    for part, count in (("calib", network.calibrated_on), ("test", TEST_SAMPLES)):
        np.savez(folder / f"{network.name}.{part}.npz", **_stacked(network.sample(random) for _ in range(count)))
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
    torch.manual_seed(SEED)
    module = network.make().eval()
    _wake(module)
    _warm(module, network)
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


def _warm(module: nn.Module, network: Network) -> None:
    """Give BatchNormalization the statistics of a few samples, as training would."""
    norms = [each for each in module.modules() if isinstance(each, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)]
    random = np.random.default_rng(SEED + 1)
    for norm in norms:
        norm.train()
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        for _ in range(WARM_BATCHES if norms else 0):
            samples = [network.sample(random) for _ in range(4)]
            module(*(torch.from_numpy(np.concatenate([each[name] for each in samples])) for name in samples[0]))
        for norm in norms:
            # Trained gains differ from channel to channel.
            if norm.weight is not None:
                norm.weight.mul_(torch.exp(0.3 * torch.randn_like(norm.weight)))
                norm.bias.add_(0.2 * torch.randn_like(norm.bias))
    module.eval()


def _stacked(samples: Iterable[Sample]) -> Sample:
    made = list(samples)
    return {name: np.stack([sample[name] for sample in made]) for name in made[0]}


if __name__ == "__main__":
    main(sys.argv[1:])
