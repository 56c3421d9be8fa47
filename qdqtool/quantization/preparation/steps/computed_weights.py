"""Store weights that the model computes from constants, so that later steps can change them."""

from collections.abc import Mapping
from typing import Any

from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.computed_weights import store_computed_weights
from qdqtool.quantization.calibration_report import Site
from qdqtool.quantization.preparation.step import PreparationMethod, ProposedChange


class ComputedWeightsStep(PreparationMethod):
    """Stores every weight of a product that is computed from constants, such as by weight normalization."""

    order = 5
    thing, done = "computed weight", "stored"

    def replay(self, model: Model, parameters: Mapping[str, Any]) -> ProposedChange:
        """Store all weights that can be computed; the step has no parameters."""
        del parameters
        stored = store_computed_weights(model)
        sites = (Site(name=each.tensor, graph=each.graph, note=f"made by {each.op_type}") for each in stored.report)
        return ProposedChange(model=stored.model, done=tuple(sites))


STEP = ComputedWeightsStep()
