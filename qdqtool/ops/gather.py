"""Operators that select values by indices.

Properties that are set to False may hold as well, but no code has relied on them so far.
"""

from dataclasses import replace

from qdqtool.ops._traits import MOVING

_PICKING = replace(MOVING, keeps_sign=False, carries_indices=False, index_inputs=(1,))

TRAITS = {
    "Gather": replace(_PICKING, looks_up=True, lacks_uint8=True),
    "GatherElements": replace(_PICKING, carries_infinity=False, looks_up=True),
    "GatherND": replace(_PICKING, carries_infinity=False),
}
