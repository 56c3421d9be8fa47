"""Steps that divide the channels of tensors by factors and multiply the weights that read them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.spill import spilled
from qdqtool.models.graph.io.tensors import element_count
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import display
from qdqtool.models.transforms.joints import Joint, JointKind, Reader, find_joints
from qdqtool.models.transforms.rescale import rescale
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors
from qdqtool.quantization.preparation.factors.equalization import ReadWeight, powers_of_two
from qdqtool.quantization.preparation.step import Change, Site, Step
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


MOST_WEIGHTS = 1 << 22
"""Elements of all weights of a joint; of larger ones, evenly spaced columns are tried. Each is rounded by itself."""


def tried_weights(readers: Sequence[Reader], read: ReadWeight) -> list[Array]:
    """Return the weight of each reader of a joint, ``[inputs, outputs]``, as a view.

    Every weight loses the same share of its columns, so each keeps its share of the error.

    Args:
        readers: The readers: MatMul or Gemm.
        read: Gives the values of a weight, as stored.
    """
    every = max(-(-sum(element_count(each.weight.tensor) for each in readers) // MOST_WEIGHTS), 1)
    # One group, and no kernel.
    return [each.weight.layout.canonical(read(each.weight))[0, ::every, :, 0].T for each in readers]


LARGEST_FACTOR = 256.0
"""The largest factor, and one over the smallest. Only channels that are nearly always zero would get larger ones, to
become as large as the others; weights multiplied by such factors leave the range of float16, and lose precision in it.
"""


class RescalingStep(Step):
    """A step that moves factors through the joints of one kind.

    Attributes:
        kind: The kind.
    """

    rescales_tensors = True
    refused_parameters = encode_factors({})
    kind: ClassVar[JointKind]

    def joints(self, index: ModelIndex) -> tuple[tuple[Joint, ...], tuple[Site, ...]]:
        """The joints of a model, and the layers that have none, with the reason."""
        joints, alone = find_joints(index, self.kind)
        return joints, tuple(Site(name=entry.node, graph=entry.graph, note=entry.reason) for entry in alone)

    def replay(self, model: Model, parameters: Mapping[str, Any]) -> Change:
        """Move the recorded factors."""
        index = ModelIndex.of(model)
        joints, _ = self.joints(index)
        factors = decode_factors(parameters, joints, self.name)
        done = tuple(joint_site(joint, "as recorded") for joint in factors)
        return Change(model=rescale(index, factors).model, parameters=parameters, done=done)


def rescalings(
    index: ModelIndex,
    factors: Mapping[Joint, Factors],
    done: Sequence[Site],
    left: Sequence[Site],
    *,
    of_folds: Mapping[Joint, Sequence[Factors]],
) -> Iterator[Change]:
    """Propose these factors, then the nearest powers of two, which round nothing; no change where there are none.

    Args:
        index: The index of the model that the joints were found in.
        factors: Positive factors, one for each channel of a joint; they are clipped to :data:`LARGEST_FACTOR`.
        done: The joints that change.
        left: Those that do not.
        of_folds: The factors of each joint that each part of the samples alone gives, for the trial.
    """
    if not factors:
        yield Change(model=index.model, left=tuple(left))
        return
    factors = _clipped(factors)
    folds = min((len(found) for found in of_folds.values()), default=0)
    parts = [_clipped({joint: found[number] for joint, found in of_folds.items()}) for number in range(folds)]
    for by in (factors, {joint: powers_of_two(exact) for joint, exact in factors.items()}):
        rescaled = rescale(index, by)
        yield Change(
            model=rescaled.model,
            parameters=encode_factors(by),
            done=tuple(done),
            left=tuple(left),
            rescaled=rescaled.report,
            on_trial=True,
            rehearsals=tuple(partial(_rescaled, index, part) for part in parts),
        )


def _rescaled(index: ModelIndex, factors: Mapping[Joint, Factors]) -> Change:
    rescaled = rescale(index, factors)
    # That of the whole data is in memory meanwhile.
    return Change(model=spilled(rescaled.model), rescaled=rescaled.report)


def _clipped(factors: Mapping[Joint, Factors]) -> dict[Joint, Factors]:
    return {joint: np.clip(by, 1 / LARGEST_FACTOR, LARGEST_FACTOR) for joint, by in factors.items()}
