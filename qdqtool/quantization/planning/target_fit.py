"""Check whether targets accept a mode or a plan, before anything is written, and name the nearest alternative."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models import targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.scope import display
from qdqtool.models.plan import QuantPlan
from qdqtool.models.targets import RefusedProperty, Target, refusals, type_name
from qdqtool.numerics.dtypes import FLOAT8E8M0, FLOAT32
from qdqtool.numerics.scheme import QuantParams
from qdqtool.quantization.planning import modes


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBy:
    """A part of a plan that a target does not accept.

    Attributes:
        target: The target.
        tensor: The tensor.
        graph: Scope of the tensor; empty for the main graph.
        reason: What the target does not accept, as text that continues the name of the target.
        alternative: The nearest alternative that the target accepts; empty if there is none.
    """

    target: str
    tensor: str
    graph: str
    reason: str
    alternative: str


def require_mode(name: str, target: str) -> None:
    """Check that a target accepts the formats of a mode; this needs no model.

    Raises:
        UsageError: The target does not accept them; the hint names the nearest alternative.
    """
    mode = modes.get(name)
    found = _mode_refusal(mode, target)
    if found is None:
        return
    nearest = f"--quantize-mode {mode.alternative}" if mode.alternative else found.alternative
    raise UsageError(
        f"quantize mode '{name}': {target} {found.reason}",
        hint=f"nearest alternative: {nearest or 'none; choose another target'}",
    )


def taken_modes(target: str) -> tuple[str, ...]:
    """Return the modes that a target accepts, in the order of help texts."""
    return tuple(name for name in modes.in_order() if _mode_refusal(modes.get(name), target) is None)


def _mode_refusal(mode: modes.Mode, target: str) -> RefusedProperty | None:
    """Return the property of a mode that a target does not accept, or None if it accepts the mode."""
    scheme = mode.example_scheme()
    powers = scheme.scale_scheme is not None and scheme.scale_scheme.format.dtype == FLOAT8E8M0
    params = QuantParams(scheme, np.ones((), FLOAT8E8M0 if powers else FLOAT32))
    return next(refusals(targets.get(target), params, "float32", None), None)


def find_refusals(plan: QuantPlan, index: ModelIndex, target: Target) -> Iterator[RefusedBy]:
    """Yield everything in a plan that a target does not accept, in the order of the plan."""
    for placement in plan:
        slot = placement.slot
        value = index.value(slot)
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
    """Check that all given targets accept a plan.

    Raises:
        UsageError: A target refuses the plan; the message names the first tensor, the hint the nearest alternative.
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
    """Return the first reason of each target that does not accept the plan."""
    found = (next(find_refusals(plan, index, targets.get(name)), None) for name in targets.names())
    return tuple(reason for reason in found if reason is not None)
