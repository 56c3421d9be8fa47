"""How bad numeric faults are, for rules that compare numbers; baselines compare these (``Extent``)."""

import numpy as np
import numpy.typing as npt

from qdqtool.linting.findings import Extent

Reals = npt.NDArray[np.float64]

FARTHEST = 1e4
"""The degree of a value that no factor brings to the right one, such as NaN: more than any two float64 are apart."""


def octaves(values: Reals, wanted: Reals | float) -> Reals:
    """Return by how many powers of two each value is off the wanted one, in either direction.

    Args:
        values: Any shape.
        wanted: Broadcastable to it.

    Returns:
        0 where both are equal or both NaN; ``FARTHEST`` where one of them is 0, NaN or infinite, or the signs differ.
    """
    values, wanted = np.broadcast_arrays(values, wanted)
    with np.errstate(all="ignore"):
        # Not the logarithm of the ratio, which may overflow.
        off = np.abs(np.log2(np.abs(values)) - np.log2(np.abs(wanted)))
    same = (values == wanted) | (np.isnan(values) & np.isnan(wanted))
    known = np.isfinite(off) & (np.signbit(values) == np.signbit(wanted))
    return np.where(same, 0.0, np.where(known, off, FARTHEST))


def of_values(kind: str, bad: npt.NDArray[np.bool_], off: Reals | float = 0.0) -> Extent:
    """Return the extent of a fault of some elements of a constant.

    Args:
        kind: What is wrong.
        bad: The elements at fault.
        off: How far each element is off, of the same shape, or one number for all.
    """
    worst = np.max(np.broadcast_to(off, bad.shape)[bad], initial=0.0)
    return Extent(kind, int(np.count_nonzero(bad)), float(np.nan_to_num(worst, nan=FARTHEST, posinf=FARTHEST)))
