"""A network with the topology of ResNet-50 and random weights that keep activations of order one.

Weights are He-normal. BatchNormalizations have random gain and shift, and the statistics that the network really has on
a batch of its own data: a first graph computes them, all at once, and the graph that is written holds them folded into
the Convs, as exporters do.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from sample_models.graph_writer import GraphWriter, float_value

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Inner channels and blocks of each stage; a block gives four times its inner channels."""

CLASSES = 1000
EPSILON = 1e-5

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Layer:
    """One Conv with the BatchNormalization that follows it.

    Attributes:
        weight: Shape [outputs, inputs, kernel, kernel].
        gain: What the normalized values are multiplied by, shape [outputs].
        shift: What is added to them, shape [outputs].
    """

    weight: Array
    gain: Array
    shift: Array


@dataclass(slots=True)
class Network:
    """Draws layers in the order in which they are asked for, the same for the same seed."""

    seed: int
    layers: dict[str, Layer] = field(default_factory=dict)

    def layer(self, name: str, outputs: int, inputs: int, kernel: int, gain: float) -> Layer:
        """The layer of that name; ``gain`` is the middle of its channels' gains."""
        if name not in self.layers:
            random = np.random.default_rng([self.seed, len(self.layers)])
            deviation = np.sqrt(2 / (inputs * kernel * kernel))
            self.layers[name] = Layer(
                (random.standard_normal((outputs, inputs, kernel, kernel)) * deviation).astype(np.float32),
                (gain * random.uniform(0.5, 1.5, outputs)).astype(np.float32),
                random.normal(0, 0.2, outputs).astype(np.float32),
            )
        return self.layers[name]


class Writer:
    """Writes the topology; what stands for a Conv with its BatchNormalization is left to subclasses."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.graph = GraphWriter("resnet50", "ResNet-50 topology with random weights")

    def conv(self, name: str, x: str, shape: tuple[int, int, int], stride: int, gain: float = 1) -> str:
        """A normalized Conv of ``shape`` (outputs, inputs, kernel); returns its output."""
        raise NotImplementedError

    def trunk(self) -> str:
        """Everything up to the pooled features, shape [batch, 2048]; returns that tensor."""
        x = self._relu("stem", self.conv("stem", "image", (64, 3, 7), 2))
        x = self.graph.node("MaxPool", "stem.pool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        channels = 64
        for stage, (inner, blocks) in enumerate(STAGES, start=1):
            for block in range(1, blocks + 1):
                stride = 2 if stage > 1 and block == 1 else 1
                x = self._block(f"stage{stage}.block{block}", x, (channels, inner), stride)
                channels = 4 * inner
        pooled = self.graph.node("GlobalAveragePool", "pool", x)
        return self.graph.node("Flatten", "flatten", pooled, axis=1)

    def _block(self, name: str, x: str, channels: tuple[int, int], stride: int) -> str:
        inputs, inner = channels
        y = self._relu(f"{name}.conv1", self.conv(f"{name}.conv1", x, (inner, inputs, 1), 1))
        y = self._relu(f"{name}.conv2", self.conv(f"{name}.conv2", y, (inner, inner, 3), stride))
        y = self.conv(f"{name}.conv3", y, (4 * inner, inner, 1), 1, gain=0.5)
        if inputs != 4 * inner:
            x = self.conv(f"{name}.shortcut", x, (4 * inner, inputs, 1), stride)
        return self._relu(name, self.graph.node("Add", f"{name}.add", y, x))

    def _relu(self, name: str, x: str) -> str:
        return self.graph.node("Relu", f"{name}.relu", x)


class StatisticsWriter(Writer):
    """Normalizes by the statistics of the batch itself, and gives them out."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.outputs: list[str] = []

    def conv(self, name: str, x: str, shape: tuple[int, int, int], stride: int, gain: float = 1) -> str:
        """Conv, then ``(y - mean) / sqrt(variance + epsilon) * gain + shift``."""
        layer = self.network.layer(name, *shape, gain)
        weight = self.graph.constant(f"{name}.weight", layer.weight)
        y = self.graph.node("Conv", name, x, weight, **_window(shape[2], stride))
        mean = self._mean(f"{name}.mean", y)
        centred = self.graph.node("Sub", f"{name}.centred", y, mean)
        variance = self._mean(f"{name}.variance", self.graph.node("Mul", f"{name}.square", centred, centred))
        self.outputs += [mean, variance]
        raised = self.graph.node(
            "Add", f"{name}.raised", variance, self._column(f"{name}.epsilon", np.float32(EPSILON))
        )
        normal = self.graph.node("Div", f"{name}.normal", centred, self.graph.node("Sqrt", f"{name}.root", raised))
        scaled = self.graph.node("Mul", f"{name}.scaled", normal, self._column(f"{name}.gain", layer.gain))
        return self.graph.node("Add", f"{name}.shifted", scaled, self._column(f"{name}.shift", layer.shift))

    def statistics(self, images: Array, path: Path) -> dict[str, Array]:
        """Mean and variance of every Conv's output over ``images``, by the name of the tensor, and the features."""
        features = self.trunk()
        ends = [float_value("image", list(images.shape))]
        model = self.graph.save(path, ends, float_value("features", ["batch", 2048]), features)
        model.graph.output.extend(float_value(name, [1, "channels", 1, 1]) for name in self.outputs)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = ["features", *self.outputs]
        return dict(zip(names, session.run(names, {"image": images}), strict=True))

    def _mean(self, name: str, x: str) -> str:
        return self.graph.node("ReduceMean", name, x, axes=[0, 2, 3], keepdims=1)

    def _column(self, name: str, values: npt.NDArray[np.float32] | np.float32) -> str:
        return self.graph.constant(name, np.asarray(values).reshape(1, -1, 1, 1))


class FoldedWriter(Writer):
    """Writes the network with its BatchNormalizations folded away."""

    def __init__(self, network: Network, statistics: dict[str, Array]) -> None:
        super().__init__(network)
        self.known = statistics

    def conv(self, name: str, x: str, shape: tuple[int, int, int], stride: int, gain: float = 1) -> str:
        """Conv with weight and bias."""
        layer = self.network.layer(name, *shape, gain)
        mean, variance = (self.known[f"{name}.{word}.out"].reshape(-1) for word in ("mean", "variance"))
        factor = layer.gain / np.sqrt(variance + np.float32(EPSILON))
        weight = self.graph.constant(f"{name}.weight", layer.weight * factor[:, None, None, None])
        bias = self.graph.constant(f"{name}.bias", layer.shift - mean * factor)
        return self.graph.node("Conv", name, x, weight, bias, **_window(shape[2], stride))

    def classifier(self, features: str) -> str:
        """A Gemm that sees features of deviation one, so that its logits are of order one too."""
        random = np.random.default_rng([self.network.seed, 10_000])
        spread = self.known["features"].std() + 1e-6
        weight = (random.standard_normal((CLASSES, 2048)) / (spread * np.sqrt(2048))).astype(np.float32)
        names = (
            self.graph.constant("classifier.weight", weight),
            self.graph.constant("classifier.bias", np.zeros(CLASSES, np.float32)),
        )
        return self.graph.node("Gemm", "classifier", features, *names, transB=1)


def write(path: Path, images: Array, seed: int = 0) -> onnx.ModelProto:
    """Write the network, opset 17, with a dynamic batch.

    Args:
        path: Where to; a scratch file is written next to it and removed.
        images: What the statistics are taken on, shape [samples, 3, side, side]; the network takes that side.
        seed: Of the weights.
    """
    network = Network(seed)
    scratch = path.with_suffix(".statistics.onnx")
    try:
        statistics = StatisticsWriter(network).statistics(images, scratch)
    finally:
        scratch.unlink(missing_ok=True)
    folded = FoldedWriter(network, statistics)
    logits = folded.classifier(folded.trunk())
    taken = float_value("image", ["batch", *images.shape[1:]])
    return folded.graph.save(path, [taken], float_value("logits", ["batch", CLASSES]), logits)


def _window(kernel: int, stride: int) -> dict[str, list[int]]:
    return {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
