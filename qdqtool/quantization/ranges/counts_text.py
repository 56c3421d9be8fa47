"""Write the counts of a histogram as one short line of text, and read it: ``3 0*40 17`` for 3, forty zeros, 17.

Zeros at the end are left out, and equal neighbours are always joined, so every histogram has exactly one text.
"""

import numpy as np

from qdqtool.numerics.counting import BINS
from qdqtool.quantization.ranges.histogram import Counts

_MOST = 1 << 62
_LONGEST = 32


def encode_counts(counts: Counts) -> str:
    """Write counts as text.

    Args:
        counts: int64, shape [BINS].
    """
    used = np.flatnonzero(counts)
    if not used.size:
        return ""
    kept = counts[: int(used[-1]) + 1]
    starts = np.flatnonzero(np.diff(kept, prepend=kept[0] - 1))
    lengths = np.diff(starts, append=kept.size)
    runs = zip(kept[starts].tolist(), lengths.tolist(), strict=True)
    return " ".join(str(count) if length == 1 else f"{count}*{length}" for count, length in runs)


def decode_counts(text: str) -> Counts:
    """Read counts from text.

    Raises:
        ValueError: The text has another form, holds more than :data:`BINS` counts, or more than an int64 can count.
    """
    runs = [_run(run) for run in text.split(" ")] if text else []
    used = sum(length for _, length in runs)
    if used > BINS:
        raise ValueError(f"are {used}; a histogram has {BINS}")
    if sum(count * length for count, length in runs) > _MOST:
        raise ValueError("add up to more values than a tensor can hold")
    counts = np.zeros(BINS, np.int64)
    counts[:used] = np.repeat([count for count, _ in runs], [length for _, length in runs])
    return counts


def _run(text: str) -> tuple[int, int]:
    count, star, length = text.partition("*")
    digits = count.isdecimal() and (length.isdecimal() or not star)
    if not digits or len(text) > _LONGEST or not text.isascii():
        raise ValueError("are no list such as '3 0*40 17'")
    return int(count), int(length) if star else 1
