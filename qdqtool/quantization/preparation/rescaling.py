"""Steps that divide the channels of tensors by factors and multiply the weights that read them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.spill import spilled
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.joints import Joint, JointKind, find_joints
from qdqtool.models.transforms.rescale import rescale
from qdqtool.numerics.product import Factors
from qdqtool.quantization.preparation.factor_records import decode_factors, encode_factors, joint_site
from qdqtool.quantization.preparation.factors.equalization import powers_of_two
from qdqtool.quantization.preparation.step import Change, Site, Step

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
