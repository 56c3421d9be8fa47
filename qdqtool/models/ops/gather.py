"""Operators that select values by indices.

Some traits are set to False here although they are true, because no code has relied on them so far (see
:mod:`qdqtool.models.ops.layout`).
"""

from dataclasses import replace

from qdqtool.models.ops._traits import MOVING

_PICKING = replace(MOVING, keeps_sign=False, carries_indices=False, index_inputs=(1,))

TRAITS = {
    "Gather": replace(_PICKING, looks_up=True, lacks_uint8=True),
    "GatherElements": replace(_PICKING, carries_infinity=False, looks_up=True),
    "GatherND": replace(_PICKING, carries_infinity=False),
}
