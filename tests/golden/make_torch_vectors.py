"""Make ``torch_quantize.npz`` with real PyTorch, and compare our torch mode with it on a million values.

Run it where PyTorch is installed; the tests read what it wrote and need no PyTorch:

    python tests/golden/make_torch_vectors.py

The archive holds 2,000 of the inputs with PyTorch's codes and dequantized values for each case, and for the whole
million the SHA-256 of the inputs and of PyTorch's codes, which the tests compare as long as NumPy makes the same inputs
from the seed.
"""

import hashlib
import sys
import warnings
from pathlib import Path

import numpy as np

SCALES = (0.1, 0.3, 0.7, 0.99872, 1 / 127)
ZERO_POINTS = {"quint8": (3, 128), "qint8": (-5, 0), "qint32": (7, 0)}
COUNT, KEPT = 1_000_000, 2_000
FILE = Path(__file__).with_name("torch_quantize.npz")


def inputs(scale):
    """A million float32: half steps, their neighbours up to two away, and normal noise. The first are special."""
    rng = np.random.default_rng(int(scale * 1e6))
    x = ((rng.integers(-160, 160, COUNT) + 0.5) * scale).astype(np.float32)
    away = rng.integers(-2, 3, COUNT)
    for distance in (1, 2):
        x = np.where(np.abs(away) >= distance, np.nextafter(x, np.sign(away).astype(np.float32) * np.float32(1e9)), x)
    x[::5] = (rng.integers(-2000, 2000, x[::5].shape) * (scale / 16)).astype(np.float32)
    x[:10] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 3e9, -3e9, 1e30, 1e-45, -1e-38]
    return x


def cases():
    """Scale, type and zero point of every case."""
    for scale in SCALES:
        for dtype, zero_points in ZERO_POINTS.items():
            for zero_point in zero_points:
                yield scale, dtype, zero_point


def digest(array):
    """SHA-256 of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def channels(scale):
    """The inputs as two rows, with a scale for each."""
    return inputs(scale).reshape(2, -1), np.array([scale, scale * 1.5])


def main():
    import torch

    sys.path.insert(0, str(Path(__file__).parents[2]))
    from qdqtool.interop import torch as ours

    warnings.filterwarnings("ignore")
    arrays = {"torch": np.array(torch.__version__)}
    for scale, dtype, zero in cases():
        x, kind = inputs(scale), getattr(torch, dtype)
        q = torch.quantize_per_tensor(torch.from_numpy(x), scale, zero, kind)
        rows, steps = channels(scale)
        zeros = torch.tensor([zero, 1])
        c = torch.quantize_per_channel(torch.from_numpy(rows), torch.from_numpy(steps), zeros, 0, kind)
        key = f"{scale:.6f}/{dtype}/{zero}"
        codes, channel_codes = q.int_repr().numpy(), c.int_repr().numpy()
        mine = ours.quantize_per_tensor(x, scale, zero, dtype)
        mine_c = ours.quantize_per_channel(rows, steps, [zero, 1], 0, dtype)
        differ = int((mine.int_repr() != codes).sum()), int((mine_c.int_repr() != channel_codes).sum())
        print(f"{key}: {differ[0]} per-tensor and {differ[1]} per-channel codes of {COUNT} differ")
        arrays[f"{scale:.6f}/x"] = np.stack([x[:KEPT], rows[:, : KEPT // 2].reshape(-1)])
        arrays[f"{key}/codes"] = codes[:KEPT]
        arrays[f"{key}/real"] = q.dequantize().numpy()[:KEPT]
        arrays[f"{key}/channel_codes"] = channel_codes[:, : KEPT // 2]
        arrays[f"{key}/channel_real"] = c.dequantize().numpy()[:, : KEPT // 2]
        arrays[f"{key}/digests"] = np.array([digest(x), digest(codes), digest(channel_codes)])
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    main()
