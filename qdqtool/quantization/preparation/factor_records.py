"""Write the factors of joints into ranges files and read them again."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.scope import display
from qdqtool.models.transforms.joints import Joint
from qdqtool.numerics.product import Factors
from qdqtool.quantization.preparation.step import Site
from qdqtool.quantization.statistics.channel_statistics import ChannelStatistics

_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e30)]


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    tensor: str
    scope: list[str]
    factors: list[_Positive]


class _Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    joints: list[_Entry]


def encode_factors(factors: Mapping[Joint, Factors]) -> dict[str, Any]:
    """Factors as JSON values."""
    return {
        "joints": [
            {"tensor": joint.key[1], "scope": list(joint.key[0]), "factors": by.tolist()}
            for joint, by in factors.items()
        ]
    }


def decode_factors(parameters: Mapping[str, Any], joints: tuple[Joint, ...], step: str) -> dict[Joint, Factors]:
    """The reverse of :func:`encode_factors`.

    Args:
        parameters: JSON values.
        joints: The joints of the model.
        step: Public id of the step, for messages.

    Raises:
        UsageError: The values are malformed, or the model has no such joint.
    """
    try:
        entries = msgspec.convert(dict(parameters), _Parameters).joints
    except msgspec.ValidationError as error:
        reason = str(error).replace("`", "'")
        raise UsageError(f"the ranges have malformed parameters of step '{step}': {reason}") from None
    known = {joint.key: joint for joint in joints}
    found: dict[Joint, Factors] = {}
    for entry in entries:
        joint = known.get((tuple(entry.scope), entry.tensor))
        if joint is None or joint.channels != len(entry.factors) or joint in found:
            raise UsageError(
                f"the ranges scale the {len(entry.factors)} channels of tensor '{entry.tensor}' (step '{step}'), "
                "and the model has no such tensor between its layers",
                hint="calibrate this model",
            )
        found[joint] = np.array(entry.factors)
    return found


def with_statistics(joints: Sequence[Joint], seen: Mapping[Value, ChannelStatistics]) -> list[Joint]:
    """The joints whose every reader has statistics of as many channels as its weight has inputs."""
    return [
        joint
        for joint in joints
        if all(r.tensor in seen and len(seen[r.tensor].peak) == r.weight.layout.inputs for r in joint.readers)
    ]


def joint_site(joint: Joint, note: str) -> Site:
    """A joint as a report names it."""
    return Site(name=joint.tensor.name, graph=display(joint.tensor.scope.path), note=note)
