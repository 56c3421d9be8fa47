"""Ranges that another tool found: matched with a model by tensor name, and planned with as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from qdqtool.errors import UsageError
from qdqtool.graph.model import Model
from qdqtool.graph.view import GraphView
from qdqtool.numerics.scheme import QuantParams
from qdqtool.pipeline._observe import Facts
from qdqtool.pipeline._planner import Planner
from qdqtool.pipeline.calibrate import Recipe, propose_for
from qdqtool.pipeline.encodings import read_encodings
from qdqtool.plan import Placement, QuantPlan
from qdqtool.ranges import UNSEEN, CalibrationRecord, Ranges
from qdqtool.registry import suggestion

SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenReport:
    """What became of a range file of another tool.

    Attributes:
        source: The file.
        format: Id of its format (:mod:`qdqtool.pipeline.encodings`).
        tensors: How many tensors it names.
        unknown: Those that the model does not have.
        notes: What the file says and could not be done as it says.
    """

    source: str
    format: str
    tensors: int
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """Ranges matched with a model.

    Attributes:
        ranges: Of each tensor that placement chooses; unseen where the file has none.
        scales: Of constants, by name.
        report: What became of the file.
    """

    ranges: Ranges
    scales: Mapping[str, npt.NDArray[np.float64]]
    report: GivenReport


def given_ranges(model: Model, path: Path, recipe: Recipe) -> Given:
    """Read a range file of another tool and match it with a model.

    A name means every tensor of that name, in whatever scope, since such files know of none.

    Raises:
        UsageError: The file is no such file or malformed, or names none of the tensors that are to be quantized.
    """
    read = read_encodings(path)
    facts = Facts.of(GraphView(model))
    slots = [e.slot for e in propose_for(facts, recipe).slots if e.kind == "activation"]
    wanted = {(slot.scope, slot.tensor): read.found.ranges.get(slot.tensor, UNSEEN) for slot in slots}
    known = {value.name for scope in facts.view.scopes for value in scope.values.values()}
    named = (*read.found.ranges, *read.found.scales)
    unknown = tuple(name for name in named if name not in known)
    if slots and not any(found.count for found in wanted.values()):
        raise _nothing_fits(path, unknown, [slot.tensor for slot in slots])
    record = CalibrationRecord(
        method=read.format, samples=0, random=False, seed=None, data_sha256="", model_sha256="", preparation=()
    )
    report = GivenReport(
        source=str(path), format=read.format, tensors=len(named), unknown=unknown, notes=read.found.notes
    )
    return Given(Ranges(record, wanted), read.found.scales, report)


class GivenPlanner(Planner):
    """Plans with given ranges, and with given scales of constants where they fit.

    Args:
        recipe: What is to be quantized.
        given: What another tool found.
    """

    def __init__(self, recipe: Recipe, given: Given) -> None:
        super().__init__(recipe, given.ranges)
        self._scales = given.scales

    def plan(self, view: GraphView) -> QuantPlan:
        """As the planner does.

        Raises:
            UsageError: As there.
        """
        self.made = QuantPlan(tuple(self._with_given_scale(placement) for placement in super().plan(view)))
        return self.made

    def _with_given_scale(self, placement: Placement) -> Placement:
        scale, params = self._scales.get(placement.slot.tensor), placement.params
        if scale is None or params.scheme.format.name != "int8" or scale.size not in (1, params.scale.size):
            return placement
        stored = np.broadcast_to(scale.reshape(-1), (params.scale.size,)).reshape(params.scale.shape)
        return replace(placement, params=QuantParams(params.scheme, stored.astype(params.scale.dtype)))


def _nothing_fits(path: Path, unknown: tuple[str, ...], wanted: list[str]) -> UsageError:
    if not unknown:
        return UsageError(f"{path} has no range of a tensor that is to be quantized, such as '{wanted[0]}'")
    near = suggestion(unknown[0], wanted)
    shown = ", ".join(f"'{name}'" for name in unknown[:SHOWN])
    more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
    return UsageError(
        f"{path} names no tensor that is to be quantized; the model has no {shown}{more}{near}",
        hint=f"it was made for another model, or with other names; wanted is for example '{wanted[0]}'",
    )
