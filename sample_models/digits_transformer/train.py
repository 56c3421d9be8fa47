"""Trains a small transformer encoder that reads a digit as a sequence of eight rows of pixels.

Writes model.onnx, test.npz and calibration.npz. Run from the top of the repository:
``python -m sample_models.digits_transformer.train`` (needs the extra ``[torch]``).
"""

from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional

from sample_models.digits import Digits, load_split
from sample_models.graph_writer import GraphWriter, float_value
from sample_models.training import make_deterministic, shift, shuffled_batches
from sample_models.transformer import Block, BlockWriter

HERE = Path(__file__).parent
EPOCHS = 100
BATCH = 64
CALIBRATION_IMAGES = 128
ROWS, WIDTH, HEADS, BLOCKS = 8, 64, 4, 2


class DigitsTransformer(nn.Module):
    """Rows are embedded, get a position, go through the blocks; their mean is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(ROWS, WIDTH)
        self.position = nn.Parameter(torch.randn(1, ROWS, WIDTH) * 0.02)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH)
        self.classifier = nn.Linear(WIDTH, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Images [n, 1, 8, 8] to logits [n, 10]."""
        x = self.embed(image.flatten(1, 2)) + self.position
        for block in self.blocks:
            x = block(x)
        return self.classifier(self.norm(x).mean(dim=1))


def train(digits: Digits) -> DigitsTransformer:
    """Train with AdamW and one learning-rate cycle on images shifted by up to a pixel."""
    images, labels = torch.from_numpy(digits.images)[:, None], torch.from_numpy(digits.labels)
    model = DigitsTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    steps = EPOCHS * (len(labels) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.003, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in shuffled_batches(len(labels), BATCH):
            loss = functional.cross_entropy(model(shift(images[batch])), labels[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return model.eval()


def export(model: DigitsTransformer, path: Path) -> onnx.ModelProto:
    """Write the graph as exporters do: MatMul and Add for every linear layer, GELU from Erf."""
    writer = GraphWriter("digits_transformer", "Transformer encoder over the rows of the 8x8 digits of scikit-learn")
    blocks = BlockWriter(writer, HEADS)
    x = writer.node("Reshape", "rows", "image", writer.constant("rows.shape", np.array([0, ROWS, ROWS], np.int64)))
    x = blocks.linear("embed", model.embed, x)
    x = writer.node("Add", "position.add", x, writer.constant("position", model.position.detach().numpy()))
    for number, block in enumerate(model.blocks, start=1):
        assert isinstance(block, Block)
        x = blocks.block(f"block{number}", block, x)
    x = blocks.norm("norm", model.norm, x)
    x = writer.node("ReduceMean", "mean", x, axes=[1], keepdims=0)
    weight = writer.constant("classifier.weight", model.classifier.weight.detach().numpy())
    bias = writer.constant("classifier.bias", model.classifier.bias.detach().numpy())
    x = writer.node("Gemm", "classifier", x, weight, bias, transB=1)
    return writer.save(path, [float_value("image", ["batch", 1, 8, 8])], float_value("logits", ["batch", 10]), x)


def main() -> None:
    make_deterministic()
    training, test = load_split()
    model = train(training)
    with torch.no_grad():
        predicted = model(torch.from_numpy(test.images)[:, None]).argmax(dim=1).numpy()
    print(f"test accuracy {np.mean(predicted == test.labels):.4f} on {len(test.labels)} images")
    export(model, HERE / "model.onnx")
    np.savez(HERE / "test.npz", image=test.images[:, None], labels=test.labels)
    np.savez(HERE / "calibration.npz", image=training.images[:CALIBRATION_IMAGES, None])


if __name__ == "__main__":
    main()
