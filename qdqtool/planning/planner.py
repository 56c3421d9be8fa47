"""What a planner is: it decides everything about one model before anything of the model is changed."""

from dataclasses import dataclass
from typing import Protocol

from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.soundness import require_sound
from qdqtool.graph.model import Model
from qdqtool.plan import QuantPlan
from qdqtool.planning.degenerate import DegenerateTensor
from qdqtool.planning.given_ranges import GivenReport
from qdqtool.planning.placement import SkippedNode
from qdqtool.transforms.opset import require_known_opset


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planned:
    """What was decided for one model.

    Attributes:
        plan: The Q/DQ pairs. They name tensors and nodes of the model that was planned for.
        skipped: Quantizable nodes that stay float, with the reason.
        degenerate: Tensors and weights that no scale serves well.
        given: What became of a range file of another tool; None where none was read.
    """

    plan: QuantPlan
    skipped: tuple[SkippedNode, ...] = ()
    degenerate: tuple[DegenerateTensor, ...] = ()
    given: GivenReport | None = None

    @property
    def rounded_by_data(self) -> int:
        """How many weights have codes that data chose, not the nearest ones."""
        return sum(placement.codes is not None for placement in self.plan)


class Planner(Protocol):
    """Decides which tensors of a model get a Q/DQ pair, and with which constants."""

    def plan(self, index: ModelIndex) -> Planned:
        """Decide for one model. Nothing of it is changed.

        Raises:
            UsageError: Nothing can be quantized, or not as asked.
        """
        ...


def index_to_plan(model: Model) -> ModelIndex:
    """Index a model that is to be planned for.

    Raises:
        ModelError: It is no graph, or imports an opset that the onnx package does not know.
    """
    require_known_opset(model)
    index = ModelIndex.of(model)
    require_sound(index.view)
    return index
