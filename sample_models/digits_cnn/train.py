"""Trains the residual CNN on the digits and writes model.onnx, test.npz, calibration.npz, plan.toml and scales.npz.

Run from the top of the repository: ``python -m sample_models.digits_cnn.train`` (needs the extra ``[torch]``).
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from sample_models.digits import Digits, load_split
from sample_models.graph_writer import GraphWriter, float_value
from sample_models.plan_writer import Entry, write_plan
from sample_models.ranges import activation_scales, weight_scales
from sample_models.training import make_deterministic, shift, shuffled_batches

HERE = Path(__file__).parent
EPOCHS = 60
BATCH = 64
CALIBRATION_IMAGES = 128
NARROW, WIDE = 16, 32


class ConvNorm(nn.Sequential):
    """A 3x3 convolution that keeps the image size, and BatchNormalization."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs))


class ResidualBlock(nn.Module):
    """``relu(x + norm(conv(relu(norm(conv(x))))))``."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = ConvNorm(channels, channels)
        self.conv2 = ConvNorm(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Channels and size stay as they are."""
        return functional.relu(x + self.conv2(functional.relu(self.conv1(x))))


class DigitsCnn(nn.Module):
    """Stem, a residual block at 8x8, a wider stem at 4x4, two residual blocks, global average, linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(1, NARROW)
        self.block1 = ResidualBlock(NARROW)
        self.widen = ConvNorm(NARROW, WIDE)
        self.block2 = ResidualBlock(WIDE)
        self.block3 = ResidualBlock(WIDE)
        self.classifier = nn.Linear(WIDE, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Images [n, 1, 8, 8] to logits [n, 10]."""
        x = functional.relu(self.stem(image))
        x = functional.max_pool2d(self.block1(x), 2)
        x = functional.relu(self.widen(x))
        x = self.block3(self.block2(x))
        return self.classifier(x.mean(dim=(2, 3)))


def train(digits: Digits) -> DigitsCnn:
    """Train with AdamW and one learning-rate cycle on images shifted by up to a pixel."""
    images, labels = torch.from_numpy(digits.images)[:, None], torch.from_numpy(digits.labels)
    model = DigitsCnn()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    steps = EPOCHS * (len(labels) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in shuffled_batches(len(labels), BATCH):
            loss = functional.cross_entropy(model(shift(images[batch])), labels[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def export(model: DigitsCnn, path: Path) -> onnx.ModelProto:
    """Write the graph with every BatchNormalization folded into its convolution."""
    writer = GraphWriter("digits_cnn", "Residual CNN for the 8x8 digits of scikit-learn; BatchNormalization is folded")
    x = _conv_relu(writer, "stem", model.stem, "image")
    x = _block(writer, "block1", model.block1, x)
    x = writer.node("MaxPool", "pool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = _conv_relu(writer, "widen", model.widen, x)
    x = _block(writer, "block2", model.block2, x)
    x = _block(writer, "block3", model.block3, x)
    x = writer.node("GlobalAveragePool", "average", x)
    x = writer.node("Flatten", "flatten", x, axis=1)
    weight = writer.constant("classifier.weight", model.classifier.weight.detach().numpy())
    bias = writer.constant("classifier.bias", model.classifier.bias.detach().numpy())
    x = writer.node("Gemm", "classifier", x, weight, bias, transB=1)
    return writer.save(path, [float_value("image", ["batch", 1, 8, 8])], float_value("logits", ["batch", 10]), x)


def _conv(writer: GraphWriter, name: str, module: ConvNorm, x: str) -> str:
    fused = fuse_conv_bn_eval(module[0], module[1])
    assert fused.bias is not None
    weight = writer.constant(f"{name}.weight", fused.weight.detach().numpy())
    bias = writer.constant(f"{name}.bias", fused.bias.detach().numpy())
    return writer.node("Conv", name, x, weight, bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def _conv_relu(writer: GraphWriter, name: str, module: ConvNorm, x: str) -> str:
    return writer.node("Relu", f"{name}.relu", _conv(writer, f"{name}.conv", module, x))


def _block(writer: GraphWriter, name: str, module: ResidualBlock, x: str) -> str:
    hidden = writer.node("Relu", f"{name}.relu1", _conv(writer, f"{name}.conv1", module.conv1, x))
    branch = _conv(writer, f"{name}.conv2", module.conv2, hidden)
    return writer.node("Relu", f"{name}.relu2", writer.node("Add", f"{name}.add", branch, x))


def plan_entries(model: onnx.ModelProto, calibration: npt.NDArray[np.float32]) -> list[Entry]:
    """int8 for both inputs of every Conv and Gemm.

    The skip input of each residual Add is the tensor that the first Conv of its block reads, so the same pair serves
    both; the input that comes from a Conv stays float, since it would keep the compiler from fusing Conv and Add.
    """
    weighted = [node for node in model.graph.node if node.op_type in {"Conv", "Gemm"}]
    skips = {node.input[1]: node.name for node in model.graph.node if node.op_type == "Add"}
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    scales = activation_scales(model, [node.input[0] for node in weighted], {"image": calibration})
    entries = []
    for node in weighted:
        activation, weight = node.input[0], node.input[1]
        shared = f", skip input of {skips[activation]}" if activation in skips else ""
        reason = f"input of {node.name}{shared}"
        entries.append(Entry(tensor=activation, format="int8", scale=float(str(scales[activation])), reason=reason))
        per_channel = weight_scales(weights[weight], axis=0)
        entries.append(
            Entry(tensor=weight, format="int8", axis=0, scale=per_channel, reason=f"weight of {node.name}, per output")
        )
    return entries


def main() -> None:
    make_deterministic()
    training, test = load_split()
    model = train(training)
    with torch.no_grad():
        predicted = model(torch.from_numpy(test.images)[:, None]).argmax(dim=1).numpy()
    print(f"test accuracy {np.mean(predicted == test.labels):.4f} on {len(test.labels)} images")
    graph = export(model, HERE / "model.onnx")
    calibration = training.images[:CALIBRATION_IMAGES, None]
    np.savez(HERE / "test.npz", image=test.images[:, None], labels=test.labels)
    np.savez(HERE / "calibration.npz", image=calibration)
    title = "Constant int8 scales of digits_cnn: largest magnitude on calibration.npz / 127, by train.py"
    write_plan(HERE / "plan.toml", title, plan_entries(graph, calibration))


if __name__ == "__main__":
    main()
