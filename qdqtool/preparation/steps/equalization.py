"""Cross-layer equalisation where ranges of channels are uneven and the expected noise falls."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.view import GraphView
from qdqtool.graph.model import Model
from qdqtool.preparation.factor_records import joint_site, with_statistics
from qdqtool.preparation.factors.equalization import Balance, JointNoise
from qdqtool.preparation.factors.importance import channel_importance
from qdqtool.preparation.rescaling import rescaled_again, rescalings
from qdqtool.preparation.step import Change, Site
from qdqtool.running.channel_statistics import ChannelData
from qdqtool.transforms.joints import Joint, JointKind, find_joints

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
        """Factors from ranges of channels on the first samples; then the nearest powers of two, which round nothing.

        The same then for the half of the joints that is expected to gain most.
        """
        view = GraphView(model)
        constants = Constants(view)
        joints, alone = find_joints(view, constants, JointKind.PRODUCT)
        left = [Site(name=entry.node, graph=entry.graph, note=entry.reason) for entry in alone]
        if not joints:
            yield Change(model=model, left=tuple(left))
            return
        seen = data.of(view)
        importance = channel_importance(view, constants)

        def balanced(joint: Joint) -> Balance:
            noise = JointNoise(joint, seen, lambda w: w.read(model), importance, rounded_inputs=self._rounded_inputs)
            return noise.balanced()

        found = {joint: balanced(joint) for joint in with_statistics(joints, seen)}
        worthwhile = {joint: by for joint, by in found.items() if by.gain_db >= LEAST_GAIN_DB}
        left += [joint_site(joint, "its channels are even") for joint in joints if joint not in worthwhile]
        middle = median(by.gain_db for by in worthwhile.values()) if worthwhile else 0.0
        better = {joint: by for joint, by in worthwhile.items() if by.gain_db >= middle}
        for made in [worthwhile, better] if len(better) < len(worthwhile) else [worthwhile]:
            factors = {joint: by.factors for joint, by in made.items()}
            done = tuple(joint_site(joint, f"expected noise {-by.gain_db:+.1f} dB") for joint, by in made.items())
            rest = [joint_site(joint, "the outputs keep less with it") for joint in worthwhile if joint not in made]
            yield from rescalings(view, factors, done, [*left, *rest])

    def replay(self, model: Model, parameters: Mapping[str, Any]) -> Change:
        """The recorded factors."""
        return rescaled_again(model, JointKind.PRODUCT, parameters, self.name)
