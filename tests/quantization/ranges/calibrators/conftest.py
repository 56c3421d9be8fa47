"""Values as activations hold them, by the name of what they look like."""

import numpy as np
import pytest


def _probabilities(random: np.random.Generator) -> np.ndarray:
    scores = np.exp(2 * random.standard_normal((400, 64)))
    return scores / scores.sum(axis=1, keepdims=True)


SHAPES = {
    "normal": lambda random: random.standard_normal(20_000),
    "heavy tails": lambda random: random.standard_t(3, 20_000),
    "after Relu": lambda random: np.maximum(random.standard_normal(20_000), 0),
    "after GELU": lambda random: _gelu(random.standard_normal(20_000)),
    "uniform": lambda random: random.uniform(-1, 1, 20_000),
    "probabilities": _probabilities,
    "few": lambda random: random.standard_normal(300),
    "pixels": lambda random: random.integers(0, 17, 20_000) / 16,
    "one outlier": lambda random: np.append(random.standard_normal(20_000), 40.0),
}


def _gelu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-1.702 * x))


@pytest.fixture(params=SHAPES)
def values(request):
    random = np.random.default_rng(7)
    return (SHAPES[request.param](random) * 1.37).astype(np.float32).ravel()
