"""Join the rows that files give to the batches that a run takes."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from qdqtool.inputs.sample import Sample
from qdqtool.numerics.dtypes import Array

Row = tuple[Mapping[str, Array], int | None]
"""The arrays of one row by input name, without a batch dimension, and its label; None where none was requested."""


def batched(rows: Iterable[Row], batch: int | None) -> Iterator[Sample]:
    """Yield one sample for each batch of rows. The last row is repeated where the batch is not full.

    Args:
        rows: The rows.
        batch: Rows of one run; None where the inputs have no batch dimension.
    """
    size, source = batch or 1, iter(rows)
    while group := list(islice(source, size)):
        filler = size - len(group)
        arrays = [row for row, _ in group]
        labels = [label for _, label in group if label is not None]
        yield Sample(
            {name: _joined([row[name] for row in arrays], filler, batch) for name in arrays[0]},
            batch=size,
            filler=filler,
            labels=np.array(labels, np.int64) if labels else None,
        )


def _joined(rows: list[Array], filler: int, batch: int | None) -> Array:
    return np.stack([*rows, *rows[-1:] * filler]) if batch is not None else rows[0]
