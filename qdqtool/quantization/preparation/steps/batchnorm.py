"""Fold BatchNormalizations into the preceding layers."""

from collections.abc import Mapping
from typing import Any

from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.batchnorm import fold_batchnorm
from qdqtool.quantization.calibration_report import Site
from qdqtool.quantization.preparation.step import PreparationMethod, ProposedChange


class BatchNormStep(PreparationMethod):
    """Folds every BatchNormalization that directly follows a layer with stored weights."""

    order = 10
    thing, done = "BatchNormalization", "folded"

    def replay(self, model: Model, parameters: Mapping[str, Any]) -> ProposedChange:
        """Fold all BatchNormalizations that can be folded; the step has no parameters."""
        del parameters
        folded = fold_batchnorm(model)
        sites = (Site(name=n.node, graph=n.graph, note=f"folded into {n.op_type} '{n.into}'") for n in folded.report)
        return ProposedChange(model=folded.model, done=tuple(sites))


STEP = BatchNormStep()
