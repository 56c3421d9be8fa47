"""The protocol of planners: a planner makes all decisions about one model before the model is changed."""

from dataclasses import dataclass
from typing import Protocol

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.soundness import require_sound
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import QuantPlan
from qdqtool.models.transforms.opset import require_known_opset
from qdqtool.quantization.planning.placement import SkippedNode
from qdqtool.quantization.ranges.activation_ranges import RangeChoice
from qdqtool.quantization.report import DegenerateTensor, GivenReport


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planned:
    """The decisions for one model.

    Attributes:
        plan: The Q/DQ pairs. They name tensors and nodes of the model for which the plan was made.
        skipped: Quantizable nodes that stay float, with the reason.
        degenerate: Tensors and weights that no scale represents well.
        given: How a range file of another tool was used; None if none was read.
        choices: How the range of each activation was chosen; empty in weight-only modes.
    """

    plan: QuantPlan
    skipped: tuple[SkippedNode, ...] = ()
    degenerate: tuple[DegenerateTensor, ...] = ()
    given: GivenReport | None = None
    choices: tuple[RangeChoice, ...] = ()

    @property
    def rounded_by_data(self) -> int:
        """The number of weights whose codes were chosen with data, not by rounding to the nearest."""
        return sum(placement.codes is not None for placement in self.plan)


class Planner(Protocol):
    """Decides which tensors of a model get a Q/DQ pair, and which constants the pairs have."""

    def plan(self, index: ModelIndex) -> Planned:
        """Return the decisions for one model; the model is not changed."""
        ...


def index_to_plan(model: Model) -> ModelIndex:
    """Return the index of a model for a planner."""
    require_known_opset(model)
    index = ModelIndex.of(model)
    require_sound(index.view)
    return index
