"""A small float model with a BatchNormalization behind a Conv."""

import numpy as np
import onnx
from onnx import helper

from support.small import make_model


def batchnorm_model(variance: float, epsilon: float = 1e-5) -> onnx.ModelProto:
    """x -> Conv -> BatchNormalization -> Relu -> Conv."""
    rng = np.random.default_rng(6)
    weights = {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "v": rng.normal(size=(2, 4, 1, 1)).astype(np.float32),
        "scale": rng.normal(size=4).astype(np.float32),
        "bias": rng.normal(size=4).astype(np.float32),
        "mean": np.full(4, 1.0, np.float32),
        "var": np.full(4, variance, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["n"], epsilon=epsilon),
        helper.make_node("Relu", ["n"], ["r"], name="relu1"),
        helper.make_node("Conv", ["r", "v"], ["y"], name="conv2"),
    ]
    return make_model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 2, 8, 8)}, weights)
