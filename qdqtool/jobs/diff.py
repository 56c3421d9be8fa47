"""The diff job: compare the Q/DQ of two models, even if tensors and nodes were renamed."""

from __future__ import annotations

from pathlib import Path

from qdqtool.models.diff.comparison import Comparison
from qdqtool.models.diff.matching import Side
from qdqtool.models.diff.report import DiffReport
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.specialize import specialize_like


def diff_models(before: str | Path | Model, after: str | Path | Model) -> DiffReport:
    """Return the changes in Q/DQ from one model to another.

    Nodes are matched by name and structure, so renamed tensors and nodes are no changes. Weights are read if their
    scales are equal, one at a time.
    """
    first, second = (each if isinstance(each, Model) else load_model(each) for each in (before, after))
    # Quantization for fixed shapes and values folds branches; so the other model is specialized too.
    sides = specialize_like(second, first).model, specialize_like(first, second).model
    return Comparison(*map(Side, sides)).report()
