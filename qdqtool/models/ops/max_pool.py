"""Max pooling: selects values by their order, which quantization keeps.

Some traits are set to False here although they are true, because no code has relied on them so far (see
:mod:`qdqtool.models.ops.layout`).
"""

from dataclasses import replace

from qdqtool.models.ops._traits import MOVING, over_space

_POOLING = replace(MOVING, carries_infinity=False, carries_indices=False, keeps_channels=True, factor_rule=over_space)

TRAITS = {"GlobalMaxPool": replace(_POOLING, keeps_magnitude=False), "MaxPool": _POOLING}
