"""Operators that pick values by indices. Nothing has relied so far on what is set to False, though it holds."""

from dataclasses import replace

from qdqtool.ops._traits import MOVING

_PICKING = replace(MOVING, keeps_sign=False, carries_indices=False, index_inputs=(1,))

TRAITS = {
    "Gather": replace(_PICKING, looks_up=True, lacks_uint8=True),
    "GatherElements": replace(_PICKING, carries_infinity=False, looks_up=True),
    "GatherND": replace(_PICKING, carries_infinity=False),
}
