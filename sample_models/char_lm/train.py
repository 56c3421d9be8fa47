"""Trains a character language model of half a million parameters on the language help that comes with Python.

The text is that of ``help()``'s topics (``pydoc_data.topics``). Writes model.onnx, test.npz and calibration.npz. Run
from the top of the repository: ``python -m sample_models.char_lm.train`` (needs the extra ``[torch]``).
"""

from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import numpy.typing as npt
import onnx
import torch
from torch import nn
from torch.nn import functional

from sample_models.graph_writer import GraphWriter, float_value, int64_value
from sample_models.training import make_deterministic
from sample_models.transformer import Block, BlockWriter, causal_mask

HERE = Path(__file__).parent
STEPS = 1200
BATCH = 32
TOKENS, WIDTH, HEADS, BLOCKS = 64, 96, 4, 4
TEST_SHARE = 0.1
TEST_WINDOWS, CALIBRATION_WINDOWS = 192, 64
FIRST, LAST = " ", "~"
NEWLINE = ord(LAST) - ord(FIRST) + 1
VOCABULARY = NEWLINE + 1


class CharLm(nn.Module):
    """Decoder: characters and positions are embedded, each position sees only those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Parameter(torch.randn(1, TOKENS, WIDTH) * 0.02)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", causal_mask(TOKENS))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Characters [n, 64] to logits of the next ones [n, 64, 96]."""
        x = self.embed(tokens) + self.position
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x))


def read_text() -> npt.NDArray[np.int64]:
    """The topics in alphabetical order: printable ASCII from 0, the line break last, anything else as ``?``."""
    text = "\n".join(topics[name] for name in sorted(topics))
    known = (char if FIRST <= char <= LAST or char == "\n" else "?" for char in text)
    return np.array([NEWLINE if char == "\n" else ord(char) - ord(FIRST) for char in known], np.int64)


def windows(text: npt.NDArray[np.int64], count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """``count`` windows spread evenly over the text, and for each character the one that follows it."""
    starts = np.linspace(0, len(text) - TOKENS - 1, count).astype(np.int64)
    cut = text[starts[:, None] + np.arange(TOKENS + 1)]
    return cut[:, :-1].copy(), cut[:, 1:].copy()


def train(text: torch.Tensor) -> CharLm:
    """Train with AdamW and one learning-rate cycle on windows from anywhere in the text."""
    model = CharLm()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.004, total_steps=STEPS)
    for _ in range(STEPS):
        starts = torch.randint(0, len(text) - TOKENS - 1, (BATCH, 1))
        cut = text[starts + torch.arange(TOKENS + 1)]
        loss = functional.cross_entropy(model(cut[:, :-1]).flatten(0, 1), cut[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


def export(model: CharLm, path: Path) -> onnx.ModelProto:
    """Write the graph as exporters do, with the causal mask as a constant that is added to the scores."""
    writer = GraphWriter("char_lm", "Next-character model of the help topics of Python; 0 is a space, 95 a line break")
    blocks = BlockWriter(writer, HEADS, writer.constant("causal_mask", causal_mask(TOKENS)[None, None].numpy()))
    x = writer.node("Gather", "embed", writer.constant("embed.weight", model.embed.weight.detach().numpy()), "tokens")
    x = writer.node("Add", "position.add", x, writer.constant("position", model.position.detach().numpy()))
    for number, block in enumerate(model.blocks, start=1):
        assert isinstance(block, Block)
        x = blocks.block(f"block{number}", block, x)
    x = blocks.linear("head", model.head, blocks.norm("norm", model.norm, x))
    inputs, output = [int64_value("tokens", ["batch", TOKENS])], float_value("logits", ["batch", TOKENS, VOCABULARY])
    return writer.save(path, inputs, output, x)


def main() -> None:
    make_deterministic()
    text = read_text()
    border = int(len(text) * (1 - TEST_SHARE))
    model = train(torch.from_numpy(text[:border]))
    tokens, labels = windows(text[border:], TEST_WINDOWS)
    with torch.no_grad():
        loss = functional.cross_entropy(
            model(torch.from_numpy(tokens)).flatten(0, 1), torch.from_numpy(labels).flatten()
        )
    print(f"{sum(p.numel() for p in model.parameters())} parameters, test perplexity {loss.exp():.3f} per character")
    export(model, HERE / "model.onnx")
    np.savez(HERE / "test.npz", tokens=tokens, labels=labels)
    np.savez(HERE / "calibration.npz", tokens=windows(text[:border], CALIBRATION_WINDOWS)[0])


if __name__ == "__main__":
    main()
