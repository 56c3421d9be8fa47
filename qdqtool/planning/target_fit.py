"""Which targets take a plan: asked before anything is written, and told with the nearest that they do take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qdqtool import targets
from qdqtool.errors import UsageError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.scope import display
from qdqtool.plan import QuantPlan
from qdqtool.targets import Target, refusals, type_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBy:
    """Something about a plan that a target does not take.

    Attributes:
        target: The target.
        tensor: The tensor.
        graph: Its scope; empty for the main graph.
        reason: What it does not take, in words that follow the name of the target.
        alternative: The nearest that it takes; empty where there is none.
    """

    target: str
    tensor: str
    graph: str
    reason: str
    alternative: str


def find_refusals(plan: QuantPlan, index: ModelIndex, target: Target) -> Iterator[RefusedBy]:
    """Everything in a plan that a target does not take, in the order of the plan."""
    for placement in plan:
        slot = placement.slot
        value = index.view.scope(slot.scope).values[slot.tensor]
        data_type = type_name(index.types.elem_type(value) or 0)
        for found in refusals(target, placement.params, data_type, index.types.shape(value)):
            yield RefusedBy(
                target=target.id,
                tensor=slot.tensor,
                graph=display(slot.scope),
                reason=found.reason,
                alternative=found.alternative,
            )


def require_targets(plan: QuantPlan, index: ModelIndex, names: Sequence[str]) -> None:
    """Raise unless every one of these targets takes the plan.

    Raises:
        UsageError: One does not; the message names the first tensor, the hint the nearest alternative.
        ArgumentError: There is no such target.
    """
    for name in names:
        found = list(find_refusals(plan, index, targets.get(name)))
        if not found:
            continue
        first = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        place = f"{first.graph}/{first.tensor}" if first.graph else first.tensor
        nearest = first.alternative or "none; leave the tensor in float"
        raise UsageError(f"tensor '{place}': {name} {first.reason}{more}", hint=f"nearest alternative: {nearest}")


def refused_by_any(plan: QuantPlan, index: ModelIndex) -> tuple[RefusedBy, ...]:
    """For each target that does not take the plan, the first reason."""
    found = (next(find_refusals(plan, index, targets.get(name)), None) for name in targets.names())
    return tuple(reason for reason in found if reason is not None)
