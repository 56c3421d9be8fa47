"""Join the rows that files give to the batches that a run takes."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import numpy as np

from qdqtool.numerics.dtypes import Array
from qdqtool.samples.sample import Sample


class Row(NamedTuple):
    """One row of a batch.

    Attributes:
        arrays: Its arrays by input name, without a batch dimension.
        label: Its label; None where none was requested.
        file: The file it was made of; empty where nobody asks for it.
    """

    arrays: Mapping[str, Array]
    label: int | None = None
    file: str = ""


def batched(rows: Iterable[Row], batch: int | None) -> Iterator[Sample]:
    """Yield one sample for each batch of rows. The last row is repeated where the batch is not full.

    Args:
        rows: The rows.
        batch: Rows of one run; None where the inputs have no batch dimension.
    """
    size, source = batch or 1, iter(rows)
    while group := list(islice(source, size)):
        filler = size - len(group)
        arrays = [row.arrays for row in group]
        labels = [row.label for row in group if row.label is not None]
        yield Sample(
            {name: _joined([row[name] for row in arrays], filler, batch) for name in arrays[0]},
            batch=size,
            filler=filler,
            labels=np.array(labels, np.int64) if labels else None,
            files=tuple(dict.fromkeys(row.file for row in group if row.file)),
        )


def _joined(rows: list[Array], filler: int, batch: int | None) -> Array:
    return np.stack([*rows, *rows[-1:] * filler]) if batch is not None else rows[0]
