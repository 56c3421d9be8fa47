"""Model Optimizer's sensitivity of layers: ``model_optimizer_layers.py NETWORK DATA.npz RESULT.json``.

It has none for ONNX models. ``auto_quantize`` scores the layers of a PyTorch module, so this takes the networks of
``benchmarks/networks``: int8, its default method (gradients), 8 samples for the scores. Scores are written by module.
"""

import json
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from modelopt.torch import quantization

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.networks import catalogue
from benchmarks.networks.export import module_of

FEW = 8
EFFECTIVE_BITS = 12.0
"""Any bound serves: the scores do not depend on it."""


def main(words: Sequence[str]) -> None:
    """Score every layer, and write scores and times."""
    name, data, result = words
    warnings.simplefilter("ignore")
    network = next(iter(catalogue.networks([name])))
    module, batches = module_of(network), _batches(network.sample(np.random.default_rng(0)), data)
    start = time.perf_counter(), time.process_time()
    _, state = quantization.auto_quantize(
        module,
        constraints={"effective_bits": EFFECTIVE_BITS},
        quantization_formats=[quantization.INT8_DEFAULT_CFG],
        data_loader=batches,
        forward_step=lambda model, batch: _tensor(model(*batch.values())),
        loss_func=lambda output, _: output.float().square().mean(),
        num_calib_steps=len(batches),
        num_score_steps=min(FEW, len(batches)),
    )
    written = {
        "scores": {module: max(map(float, found["scores"])) for module, found in _scored(state)},
        "seconds": time.perf_counter() - start[0],
        "cpu_seconds": time.process_time() - start[1],
    }
    Path(result).write_text(json.dumps(written), encoding="utf-8")


def _batches(shaped: Mapping[str, Any], data: str) -> list[dict[str, torch.Tensor]]:
    with np.load(data) as stored:
        arrays = {name: stored[name] for name in shaped}
    return [
        {
            name: torch.from_numpy(array[row] if array.ndim > shaped[name].ndim else array[row : row + 1])
            for name, array in arrays.items()
        }
        for row in range(len(next(iter(arrays.values()))))
    ]


def _tensor(output: Any) -> torch.Tensor:
    while not isinstance(output, torch.Tensor):
        output = next(iter(output.values())) if isinstance(output, Mapping) else output[0]
    return output


def _scored(state: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, found) for found in state["candidate_stats"].values() for name in _names(found["module_names"])]


def _names(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


if __name__ == "__main__":
    main(sys.argv[1:])
