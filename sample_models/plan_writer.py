"""Writes plan files: which tensor is quantized how, with which constant scale, and why."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Scale = float | list[float] | list[list[float]] | npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One ``[[tensors]]`` table of a plan.

    Attributes:
        tensor: Name of the tensor.
        format: Format id, such as ``int8``.
        scale: Written into the plan, or, if it is an array, into the npz beside it under the tensor's name.
        reason: One line for the reader.
        axis: Kept axis of per-axis scales, blocked axis of block scales; None for per-tensor.
        block_size: Elements that share a block scale along ``axis``.
        zero_point: Code of real zero.
    """

    tensor: str
    format: str
    scale: Scale
    reason: str
    axis: int | None = None
    block_size: int | None = None
    zero_point: int | None = None


def write_plan(path: Path, title: str, entries: list[Entry]) -> None:
    """Write a plan file, and ``scales.npz`` beside it if any entry has its scales in an array."""
    arrays = {entry.tensor: entry.scale for entry in entries if isinstance(entry.scale, np.ndarray)}
    if arrays:
        np.savez(path.with_name("scales.npz"), **arrays)
    tables = [f"# {title}\nschema_version = 1\n", *map(_table, entries)]
    path.write_text("\n".join(tables), encoding="utf-8")


def _table(entry: Entry) -> str:
    lines = ["[[tensors]]", f'tensor = "{entry.tensor}"', f'format = "{entry.format}"']
    lines += [
        f"{key} = {value}" for key in ("axis", "block_size", "zero_point") if (value := getattr(entry, key)) is not None
    ]
    lines += [f"scale = {_scale(entry)}", f'reason = "{entry.reason}"', ""]
    return "\n".join(lines)


def _scale(entry: Entry) -> str:
    if isinstance(entry.scale, np.ndarray):
        return f'{{ file = "scales.npz", key = "{entry.tensor}" }}'
    return str(entry.scale)
