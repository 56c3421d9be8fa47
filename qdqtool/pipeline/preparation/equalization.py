"""Cross-layer equalisation where ranges of channels are uneven and the expected noise falls."""

from collections.abc import Iterator, Mapping
from typing import Any

from qdqtool.algorithms.channels import ChannelStatistics
from qdqtool.algorithms.equalization import equalizing_factors, noise_reduction_db
from qdqtool.graph.constants import Constants
from qdqtool.graph.joints import Joint, JointKind, find_joints
from qdqtool.graph.model import Model
from qdqtool.graph.view import GraphView, Value
from qdqtool.graph.weights import StoredWeight
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors
from qdqtool.pipeline._channels import ChannelData
from qdqtool.pipeline.preparation._factors import (
    joint_site,
    with_statistics,
)
from qdqtool.pipeline.preparation._rescaling import rescaled_again, rescalings
from qdqtool.pipeline.preparation._step import Change, Site

LEAST_GAIN_DB = 1.0
"""Noise that must be saved at a joint: a sixth of a bit. The estimate is no better than that."""


class EqualizationStep:
    """Every joint between layers with weights.

    Args:
        rounded_inputs: Whether activations will have steps of one size; else only the noise of the weights counts.
    """

    name = "equalization"

    def __init__(self, *, rounded_inputs: bool = True) -> None:
        self._rounded_inputs = rounded_inputs

    def changes(self, model: Model, data: ChannelData) -> Iterator[Change]:
        """Factors from ranges of channels on the first samples; then the nearest powers of two, which round nothing."""
        view = GraphView(model)
        joints, alone = find_joints(view, Constants(view), JointKind.PRODUCT)
        left = [Site(name=entry.node, graph=entry.graph, note=entry.reason) for entry in alone]
        if not joints:
            yield Change(model=model, left=tuple(left))
            return
        seen = data.of(view)
        factors, gains = self._worthwhile(with_statistics(joints, seen), seen, model)
        left += [joint_site(joint, "its channels are even") for joint in joints if joint not in factors]
        done = tuple(joint_site(joint, f"expected noise {-gains[joint]:+.1f} dB") for joint in factors)
        yield from rescalings(view, factors, done, left)

    def replay(self, model: Model, parameters: Mapping[str, Any]) -> Change:
        """The recorded factors."""
        return rescaled_again(model, JointKind.PRODUCT, parameters, self.name)

    def _worthwhile(
        self, left: list[Joint], seen: Mapping[Value, ChannelStatistics], model: Model
    ) -> tuple[dict[Joint, Factors], dict[Joint, float]]:
        """Factors of the joints that gain by them. Those of the others are left out and the rest found again."""

        def read(weight: StoredWeight) -> Array:
            return weight.read(model)

        def gain(joint: Joint) -> float:
            return noise_reduction_db(joint, factors, seen, read, rounded_inputs=self._rounded_inputs)

        while True:
            factors = equalizing_factors(left, seen, read)
            gains = {joint: gain(joint) for joint in left}
            kept = [joint for joint in left if gains[joint] >= LEAST_GAIN_DB]
            if len(kept) == len(left):
                return factors, gains
            left = kept
