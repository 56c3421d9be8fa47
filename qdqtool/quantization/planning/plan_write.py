"""Write a plan as a plan file, to be read, compared, edited and inserted again."""

from typing import Any

import msgspec
import numpy as np

from qdqtool.models.graph.scope import display
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.quantization.planning.plan_file import SCHEMA_VERSION

SCALES_ONLY = "this plan keeps its scales alone: inserting it rounds to the nearest codes"
"""The addition to the reason of a weight whose codes were chosen with data."""


def encode_plan(plan: QuantPlan) -> bytes:
    """Return the plan as an indented JSON plan file (``docs/plan.md``) that holds all numbers.

    Scales are written so that reading them gives the same bits. Consumers are named by their first output. Codes that
    were chosen with data are not kept; the reasons state it.
    """
    document = {"schema_version": SCHEMA_VERSION, "tensors": [_entry(placement) for placement in plan]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _entry(placement: Placement) -> dict[str, Any]:
    slot, params = placement.slot, placement.params
    entry: dict[str, Any] = {"tensor": slot.tensor, "scope": display(slot.scope)}
    if slot.uses is not None:
        # The first output with a name: optional outputs of a node may be empty.
        entry["consumers"] = list(dict.fromkeys(next(filter(None, use.node)) for use in slot.uses))
    entry["format"] = params.scheme.format.name
    match params.scheme.granularity:
        case PerTensor():
            pass
        case PerAxis(axis):
            entry["axis"] = axis
        case Blocked(axis, block_size):
            entry |= {"axis": axis, "block_size": block_size}
    # JSON has one number type. Every scale type fits in float64, and the shortest decimal reads as the same float64.
    entry["scale"] = params.scale.astype(np.float64).tolist()
    inner = params.scheme.scale_scheme
    if inner is not None:
        entry["scale_format"] = inner.format.name
    if params.scale_params is not None:
        entry["scale_scale"] = float(params.scale_params.scale)
    if params.zero_point is not None:
        entry["zero_point"] = params.zero_point.astype(np.int64).tolist()
    reason = placement.reason if placement.codes is None else f"{placement.reason}; {SCALES_ONLY}"
    return {**entry, "reason": reason}
