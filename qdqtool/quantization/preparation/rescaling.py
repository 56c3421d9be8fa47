"""Steps that divide the channels of tensors by factors and multiply the weights that read them.

Products with factors are computed in float64 and rounded once to the type of the weight, so the result of the model
changes by rounding only. Weights are rescaled when the model is saved, one at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models.graph.edits.edit import AddInitializer, Edit, SetInput
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.io.tensors import computed_tensor, element_count, make_tensor
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import display
from qdqtool.models.ops.support.weights import StoredWeight
from qdqtool.models.transforms.rescaling_points import PointKind, Reader, RescalingPoint, find_rescaling_points
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors
from qdqtool.quantization.calibration_report import Site
from qdqtool.quantization.preparation.factors.equalization import powers_of_two
from qdqtool.quantization.preparation.step import PreparationMethod, ProposedChange
from qdqtool.quantization.statistics.channel_statistics import ChannelStatistics

SUFFIX = "_rescaled"


@dataclass(slots=True, eq=False)
class WeightFactors:
    """The factors of one weight.

    Attributes:
        weight: The weight.
        inputs: Factors that multiply the input channels; None for no factors.
        outputs: Factors that divide the output channels; None for no factors.
    """

    weight: StoredWeight
    inputs: Factors | None = None
    outputs: Factors | None = None


def rescale(index: ModelIndex, factors: Mapping[RescalingPoint, Factors]) -> Transformed[Mapping[TensorKey, Factors]]:
    """Divide the channels of tensors by factors, and multiply the weights that read them.

    Args:
        index: The index of the model with the rescaling points. Its model is not changed.
        factors: Positive finite factors, one for each channel of the rescaling point.

    Returns:
        The model, with the factors that divide the channels of each tensor that a reader reads.
    """
    model = index.model.fork()
    edits: list[Edit] = []
    namer, dead = Namer(index.view), DeadCode(index.view)
    for change in weight_factors(factors):
        edits += _new_weight(model, change, namer)
        dead.drop_use(change.weight.node, 1)
    for node, position, by in _vectors(factors):
        edits += _new_vector(index.constants, node, position, by, namer)
        dead.drop_use(node, position)
    return Transformed(apply_edits(model, edits + dead.edits()), _divided(factors))


def _divided(factors: Mapping[RescalingPoint, Factors]) -> dict[TensorKey, Factors]:
    return {
        tensor_key(reader.tensor): np.repeat(by, reader.repeat)
        for point, by in factors.items()
        for reader in point.readers
    }


def weight_factors(factors: Mapping[RescalingPoint, Factors]) -> tuple[WeightFactors, ...]:
    """Return the factors of every weight at these rescaling points; most weights lie between two of them."""
    found: dict[NodeView, WeightFactors] = {}
    for point, by in factors.items():
        if point.weight is not None:
            found.setdefault(point.weight.node, WeightFactors(point.weight)).outputs = by
        for reader in point.readers:
            change = found.setdefault(reader.weight.node, WeightFactors(reader.weight))
            change.inputs = np.repeat(by, reader.repeat)
    return tuple(found.values())


def _vectors(factors: Mapping[RescalingPoint, Factors]) -> Iterator[tuple[NodeView, int, Factors]]:
    for point, by in factors.items():
        for node, index in point.vectors:
            yield node, index, by


def _new_weight(model: Model, change: WeightFactors, namer: Namer) -> list[Edit]:
    weight, node = change.weight, change.weight.node
    name = namer.tensor(f"{node.input_name(1)}{SUFFIX}")
    scaled = partial(weight.layout.rescaled, inputs=change.inputs, outputs=change.outputs)
    tensor = computed_tensor(model, weight.tensor, name, scaled)
    return [AddInitializer(node.scope.path, tensor), SetInput(node.scope.path, node.key, 1, name)]


def _new_vector(constants: Constants, node: NodeView, position: int, by: Factors, namer: Namer) -> list[Edit]:
    value = node.input(position)
    stored, values = (constants.direct(value), constants.array(value)) if value is not None else (None, None)
    assert stored is not None
    assert values is not None
    name = namer.tensor(f"{node.input_name(position)}{SUFFIX}")
    return [
        AddInitializer(node.scope.path, make_tensor(name, values.astype(np.float64) / by, stored.data_type)),
        SetInput(node.scope.path, node.key, position, name),
    ]


_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e30)]


class _PointFactors(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    tensor: str
    scope: list[str]
    factors: list[_Positive]


class _RescalingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    joints: list[_PointFactors]


def encode_factors(factors: Mapping[RescalingPoint, Factors]) -> dict[str, Any]:
    """Return factors as JSON values."""
    return {
        "joints": [
            {"tensor": point.key[1], "scope": list(point.key[0]), "factors": by.tolist()}
            for point, by in factors.items()
        ]
    }


def decode_factors(
    parameters: Mapping[str, Any], points: tuple[RescalingPoint, ...], step: str
) -> dict[RescalingPoint, Factors]:
    """Return factors from the JSON values of :func:`encode_factors`.

    Raises:
        UsageError: The values are malformed, or the model does not have one of the rescaling points.
    """
    try:
        entries = msgspec.convert(dict(parameters), _RescalingParameters).joints
    except msgspec.ValidationError as error:
        reason = str(error).replace("`", "'")
        raise UsageError(f"the ranges have malformed parameters of step '{step}': {reason}") from None
    known = {point.key: point for point in points}
    found: dict[RescalingPoint, Factors] = {}
    for entry in entries:
        point = known.get((tuple(entry.scope), entry.tensor))
        if point is None or point.channels != len(entry.factors) or point in found:
            raise UsageError(
                f"the ranges scale the {len(entry.factors)} channels of tensor '{entry.tensor}' (step '{step}'), "
                "and the model has no such tensor between its layers",
                hint="calibrate this model",
            )
        found[point] = np.array(entry.factors)
    return found


def with_statistics(points: Sequence[RescalingPoint], seen: Mapping[Value, ChannelStatistics]) -> list[RescalingPoint]:
    """Return the rescaling points with usable statistics: each reader has one channel for each input of its weight."""
    return [
        point
        for point in points
        if all(r.tensor in seen and len(seen[r.tensor].peak) == r.weight.layout.inputs for r in point.readers)
    ]


def point_site(point: RescalingPoint, note: str) -> Site:
    """Return a rescaling point in the form for reports."""
    return Site(name=point.tensor.name, graph=display(point.tensor.scope.path), note=note)


MOST_WEIGHTS = 1 << 22
"""Limit for the elements of all weights of a point. If they have more, only evenly spaced columns are tried; columns
are independent of each other.
"""


def tried_weights(readers: Sequence[Reader]) -> list[Array]:
    """Return the weight of each reader of a rescaling point, ``[inputs, outputs]``, as a view.

    All weights lose the same share of their columns, so the share of each in the error stays the same.
    """
    every = max(-(-sum(element_count(each.weight.tensor) for each in readers) // MOST_WEIGHTS), 1)
    # Such weights have one group and no kernel axes.
    return [each.weight.layout.canonical(each.weight.read())[0, ::every, :, 0].T for each in readers]


LARGEST_FACTOR = 256.0
"""The largest factor; the smallest factor is its reciprocal. Only channels that are nearly always zero would get larger
factors, to become as large as other channels. Weights with such factors lose precision in float16 or leave its range.
"""


class RescalingStep(PreparationMethod):
    """A step that moves factors through the rescaling points of one kind."""

    rescales_tensors = True
    refused_parameters = encode_factors({})
    kind: ClassVar[PointKind]

    def points(self, index: ModelIndex) -> tuple[tuple[RescalingPoint, ...], tuple[Site, ...]]:
        """Return the rescaling points of a model, and the layers without such points, with the reason."""
        points, alone = find_rescaling_points(index, self.kind)
        return points, tuple(Site(name=entry.node, graph=entry.graph, note=entry.reason) for entry in alone)

    def replay(self, model: Model, parameters: Mapping[str, Any]) -> ProposedChange:
        """Carry out the change again with the recorded factors."""
        index = ModelIndex.of(model)
        points, _ = self.points(index)
        factors = decode_factors(parameters, points, self.name)
        done = tuple(point_site(point, "as recorded") for point in factors)
        return ProposedChange(model=rescale(index, factors).model, parameters=parameters, done=done)


def rescalings(
    index: ModelIndex,
    factors: Mapping[RescalingPoint, Factors],
    done: Sequence[Site],
    left: Sequence[Site],
    *,
    of_folds: Mapping[RescalingPoint, Sequence[Factors]],
) -> Iterator[ProposedChange]:
    """Propose these factors, then the nearest powers of two, which round nothing; no change if there are no factors.

    Args:
        index: The index of the model with the rescaling points.
        factors: Positive factors, one for each channel of a point; they are clipped to :data:`LARGEST_FACTOR`.
        done: The rescaling points that change.
        left: The rescaling points that do not change.
        of_folds: The factors of each rescaling point from each part of the samples alone, for the trial.
    """
    if not factors:
        yield ProposedChange(model=index.model, left=tuple(left))
        return
    factors = _clipped(factors)
    folds = min((len(found) for found in of_folds.values()), default=0)
    parts = [_clipped({point: found[number] for point, found in of_folds.items()}) for number in range(folds)]
    for by in (factors, {point: powers_of_two(exact) for point, exact in factors.items()}):
        rescaled = rescale(index, by)
        yield ProposedChange(
            model=rescaled.model,
            parameters=encode_factors(by),
            done=tuple(done),
            left=tuple(left),
            rescaled=rescaled.report,
            on_trial=True,
            rehearsals=tuple(partial(_rescaled, index, part) for part in parts),
        )


def _rescaled(index: ModelIndex, factors: Mapping[RescalingPoint, Factors]) -> ProposedChange:
    rescaled = rescale(index, factors)
    # The rescaled model of all samples is in memory at the same time.
    return ProposedChange(model=offloaded(rescaled.model), rescaled=rescaled.report)


def _clipped(factors: Mapping[RescalingPoint, Factors]) -> dict[RescalingPoint, Factors]:
    return {point: np.clip(by, 1 / LARGEST_FACTOR, LARGEST_FACTOR) for point, by in factors.items()}
