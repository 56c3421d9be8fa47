"""Writes one folder for each worked example of five reference pages: a float model, a plan, the expected values.

The pages describe Tripy's ``quantize`` and ``dequantize``, TensorRT's Dequantize operator, pypto's ``dequantize`` and
PyTorch's ``torch.dequantize``. ``qdqtool insert`` makes the Q/DQ model from ``model.onnx`` and ``plan.toml``.

``x`` is a graph input where the page quantizes an input, else an initializer: the page's own weights, or, where it
starts from integer codes, ``(code - zero_point) * scale``, which packing turns back into those codes.
``expected.npz`` holds ``x``, ``codes`` and ``y`` by the defined semantics, worked out in exact fractions, and what the
page prints: ``page_codes`` and ``page_y``, with ``page_tolerance``, the largest difference its printing explains.

Run from the top of the repository: ``python -m sample_models.pages.make [FOLDER]``.
"""

import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sample_models.graph_writer import GraphWriter, float_value
from sample_models.pages.examples import EXAMPLES, Example
from sample_models.plan_writer import Entry, write_plan

HERE = Path(__file__).parent
LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int4": (-8, 7)}


@dataclass(frozen=True, slots=True)
class Worked:
    """An example worked out: float32 values, integer codes (int64) and float32 result, all of one shape."""

    x: npt.NDArray[np.float32]
    codes: npt.NDArray[np.int64]
    y: npt.NDArray[np.float32]


def work_out(example: Example) -> Worked:
    """The example in exact fractions; only ``y`` (and ``x`` made from codes) is rounded, once, to float32."""
    scale = spread_scale(example)
    zero = example.zero_point or 0
    if example.codes is not None:
        codes = np.array(example.codes, np.int64)
        x = dequantize(codes, scale, zero)
    else:
        x = np.array(example.x, np.float32)
        codes = quantize(x, scale, zero, LIMITS[example.format])
    return Worked(x, codes, dequantize(codes, scale, zero))


def spread_scale(example: Example) -> npt.NDArray[np.float32]:
    """The scale as float32, one for each element of the example."""
    scale = np.array(example.scale, np.float32)
    shape = np.shape(example.x if example.codes is None else example.codes)
    if scale.size == 1:
        return np.broadcast_to(scale.reshape(()), shape)
    assert example.axis is not None
    if example.block_size is not None:
        return scale.repeat(example.block_size, axis=example.axis)
    return np.broadcast_to(scale.reshape([-1 if dim == example.axis else 1 for dim in range(len(shape))]), shape)


def quantize(
    x: npt.NDArray[np.float32], scale: npt.NDArray[np.float32], zero: int, limits: tuple[int, int]
) -> npt.NDArray[np.int64]:
    """``saturate(round_half_even(x / scale) + zero)``; Python rounds fractions half to even."""
    low, high = limits
    pairs = zip(x.flat, scale.flat, strict=True)
    codes = [min(max(round(Fraction(float(a)) / Fraction(float(s))) + zero, low), high) for a, s in pairs]
    return np.array(codes, np.int64).reshape(x.shape)


def dequantize(codes: npt.NDArray[np.int64], scale: npt.NDArray[np.float32], zero: int) -> npt.NDArray[np.float32]:
    """``(codes - zero) * scale``: exact in float64 (24 + 9 bits), rounded once to float32."""
    return ((codes - zero) * scale.astype(np.float64)).astype(np.float32)


def write(example: Example, root: Path) -> None:
    """Write the folder of one example below ``root``."""
    folder = root / example.folder
    folder.mkdir(exist_ok=True)
    worked = work_out(example)
    shape = list(worked.x.shape)
    writer = GraphWriter(example.folder, example.source)
    inputs = [] if example.constant else [float_value("x", shape)]
    if example.constant:
        writer.constant("x", worked.x)
    writer.save(folder / "model.onnx", inputs, float_value("y", shape), writer.node("Identity", "result", "x"))
    write_plan(folder / "plan.toml", example.source, [_entry(example)])
    printed = {
        "page_codes": None if example.page_codes is None else np.array(example.page_codes, np.int64),
        "page_y": None if example.page_y is None else np.array(example.page_y, np.float64),
        "page_tolerance": np.float64(example.page_tolerance),
    }
    known = {key: value for key, value in printed.items() if value is not None}
    np.savez(folder / "expected.npz", x=worked.x, codes=worked.codes, y=worked.y, **known)


def _entry(example: Example) -> Entry:
    return Entry(
        tensor="x",
        format=example.format,
        axis=example.axis,
        block_size=example.block_size,
        scale=example.scale,
        zero_point=example.zero_point,
        reason="worked example",
    )


if __name__ == "__main__":
    for each in EXAMPLES:
        write(each, Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
