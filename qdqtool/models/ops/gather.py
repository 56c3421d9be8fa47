"""Operators that select values by indices.

What is set to False holds, but no code has relied on it so far (see :mod:`qdqtool.models.ops.layout`).
"""

from dataclasses import replace

from qdqtool.models.ops._traits import MOVING

_PICKING = replace(MOVING, keeps_sign=False, carries_indices=False, index_inputs=(1,))

TRAITS = {
    "Gather": replace(_PICKING, looks_up=True, lacks_uint8=True),
    "GatherElements": replace(_PICKING, carries_infinity=False, looks_up=True),
    "GatherND": replace(_PICKING, carries_infinity=False),
}
