"""Trains a depthwise CNN on the digits, and makes a twin of it whose channels have very uneven ranges.

Writes model.onnx, uneven.onnx, test.npz and calibration.npz. Run from the top of the repository:
``python -m sample_models.digits_depthwise.train`` (needs the extra ``[torch]``).
"""

from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from sample_models.digits import Digits, load_split
from sample_models.graph_writer import GraphWriter, float_value
from sample_models.training import make_deterministic, shift, shuffled_batches
from sample_models.uneven import with_uneven_channels

HERE = Path(__file__).parent
EPOCHS = 80
BATCH = 64
CALIBRATION_IMAGES = 128
STEM, NARROW, WIDE, EXPANDED = 16, 32, 64, 96
UNEVEN_SEED = 20261121


class ConvNorm(nn.Sequential):
    """A convolution that keeps the image size, and BatchNormalization."""

    def __init__(self, inputs: int, outputs: int, size: int, groups: int = 1) -> None:
        conv = nn.Conv2d(inputs, outputs, size, padding=size // 2, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(outputs))


class Separable(nn.Module):
    """``relu(pointwise(relu(depthwise(x))))``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.depthwise = ConvNorm(inputs, inputs, 3, groups=inputs)
        self.pointwise = ConvNorm(inputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From ``inputs`` to ``outputs`` channels."""
        return functional.relu(self.pointwise(functional.relu(self.depthwise(x))))


class InvertedResidual(nn.Module):
    """``x + project(relu(depthwise(relu(expand(x)))))``."""

    def __init__(self, channels: int, expanded: int) -> None:
        super().__init__()
        self.expand = ConvNorm(channels, expanded, 1)
        self.depthwise = ConvNorm(expanded, expanded, 3, groups=expanded)
        self.project = ConvNorm(expanded, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Channels and size stay as they are."""
        return x + self.project(functional.relu(self.depthwise(functional.relu(self.expand(x)))))


class DigitsDepthwise(nn.Module):
    """Stem, a separable block at 8x8, an inverted residual at 4x4, two separable blocks, average, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(1, STEM, 3)
        self.block1 = Separable(STEM, NARROW)
        self.block2 = InvertedResidual(NARROW, EXPANDED)
        self.block3 = Separable(NARROW, WIDE)
        self.block4 = Separable(WIDE, WIDE)
        self.classifier = nn.Linear(WIDE, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Images [n, 1, 8, 8] to logits [n, 10]."""
        x = functional.max_pool2d(self.block1(functional.relu(self.stem(image))), 2)
        x = self.block4(self.block3(self.block2(x)))
        return self.classifier(x.mean(dim=(2, 3)))


def train(digits: Digits) -> DigitsDepthwise:
    """Train with AdamW and one learning-rate cycle on images shifted by up to a pixel."""
    images, labels = torch.from_numpy(digits.images)[:, None], torch.from_numpy(digits.labels)
    model = DigitsDepthwise()
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


def export(model: DigitsDepthwise, path: Path) -> onnx.ModelProto:
    """Write the graph with every BatchNormalization folded into its convolution."""
    writer = GraphWriter(
        "digits_depthwise", "Depthwise CNN for the 8x8 digits of scikit-learn; BatchNormalization is folded"
    )
    x = _relu(writer, "stem", _conv(writer, "stem.conv", model.stem, "image"))
    x = _separable(writer, "block1", model.block1, x)
    x = writer.node("MaxPool", "pool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = _inverted(writer, "block2", model.block2, x)
    x = _separable(writer, "block3", model.block3, x)
    x = _separable(writer, "block4", model.block4, x)
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
    size = fused.kernel_size[0]
    pads = [size // 2] * 4
    return writer.node("Conv", name, x, weight, bias, kernel_shape=[size, size], pads=pads, group=fused.groups)


def _relu(writer: GraphWriter, name: str, x: str) -> str:
    return writer.node("Relu", f"{name}.relu", x)


def _separable(writer: GraphWriter, name: str, module: Separable, x: str) -> str:
    x = _relu(writer, f"{name}.depthwise", _conv(writer, f"{name}.depthwise.conv", module.depthwise, x))
    return _relu(writer, f"{name}.pointwise", _conv(writer, f"{name}.pointwise.conv", module.pointwise, x))


def _inverted(writer: GraphWriter, name: str, module: InvertedResidual, x: str) -> str:
    y = _relu(writer, f"{name}.expand", _conv(writer, f"{name}.expand.conv", module.expand, x))
    y = _relu(writer, f"{name}.depthwise", _conv(writer, f"{name}.depthwise.conv", module.depthwise, y))
    return writer.node("Add", f"{name}.add", _conv(writer, f"{name}.project.conv", module.project, y), x)


def main() -> None:
    make_deterministic()
    training, test = load_split()
    model = train(training)
    with torch.no_grad():
        predicted = model(torch.from_numpy(test.images)[:, None]).argmax(dim=1).numpy()
    print(f"test accuracy {np.mean(predicted == test.labels):.4f} on {len(test.labels)} images")
    graph = export(model, HERE / "model.onnx")
    (HERE / "uneven.onnx").write_bytes(with_uneven_channels(graph, UNEVEN_SEED).SerializeToString(deterministic=True))
    np.savez(HERE / "test.npz", image=test.images[:, None], labels=test.labels)
    np.savez(HERE / "calibration.npz", image=training.images[:CALIBRATION_IMAGES, None])


if __name__ == "__main__":
    main()
