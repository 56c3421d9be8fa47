"""Branches and loops."""

from qdqtool.models.ops._traits import Traits

TRAITS = {"If": Traits(index_inputs=(0,)), "Loop": Traits(index_inputs=(0, 1))}
