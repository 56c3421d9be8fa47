"""Max pooling: it selects values by their order, which quantization keeps.

Properties that are set to False may hold as well, but no code has relied on them so far.
"""

from dataclasses import replace

from qdqtool.ops._factors import over_space
from qdqtool.ops._traits import MOVING

_POOLING = replace(MOVING, carries_infinity=False, carries_indices=False, keeps_channels=True, factor_rule=over_space)

TRAITS = {
    "GlobalMaxPool": replace(_POOLING, keeps_magnitude=False),
    "MaxPool": _POOLING,
}
