"""Equalise the channels of tensors between layers, where their ranges are uneven and the expected noise falls."""

from collections.abc import Iterator
from statistics import median

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.tensors import nbytes
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.joints import Joint, JointKind
from qdqtool.numerics.cores import LARGE, side_by_side
from qdqtool.quantization.planning.recipe import Preparation
from qdqtool.quantization.preparation.factors.equalization import BestFactors, JointNoise
from qdqtool.quantization.preparation.factors.importance import channel_importance
from qdqtool.quantization.preparation.rescaling import RescalingStep, joint_site, rescalings, with_statistics
from qdqtool.quantization.preparation.step import Change, StepRequest
from qdqtool.quantization.statistics.channel_statistics import ChannelData

LEAST_GAIN_DB = 1.0
"""By how much the expected noise must fall at a joint: a sixth of a bit. The estimate is no more precise than that."""


class EqualizationStep(RescalingStep):
    """Cross-layer equalisation at the joints between layers with weights."""

    order = 20
    thing, done = "layer", "equalised"
    off = "--no-equalize"
    kind = JointKind.PRODUCT

    def is_asked(self, request: StepRequest) -> bool:
        """Return True unless the user disables the step."""
        return request.asked.equalize

    def disagreement(self, asked: Preparation, *, made: bool) -> str:
        """Return the problem where the model was equalised and must not be."""
        if made and not asked.equalize:
            return "the ranges were found after equalising the model, which --no-equalize forbids"
        return ""

    def changes(self, model: Model, data: ChannelData, request: StepRequest) -> Iterator[Change]:
        """Propose the factors with the least expected noise, then the nearest powers of two, which round nothing.

        Then the same for those joints alone whose expected gain is the median or more.
        """
        index = ModelIndex.of(model)
        joints, left = self.joints(index)
        if not joints:
            yield Change(model=model, left=left)
            return
        seen = data.of(index)
        importance = channel_importance(index)

        def best(joint: Joint) -> BestFactors:
            rounded = request.integer_activations
            return JointNoise(joint, seen, lambda w: w.read(model), importance, rounded_inputs=rounded).best_factors()

        usable = with_statistics(joints, seen)
        found = dict(zip(usable, side_by_side(best, usable, _reads_large), strict=True))
        worthwhile = {joint: by for joint, by in found.items() if by.gain_db >= LEAST_GAIN_DB}
        even = [joint_site(joint, "its channels are even") for joint in joints if joint not in worthwhile]
        middle = median(by.gain_db for by in worthwhile.values()) if worthwhile else 0.0
        better = {joint: by for joint, by in worthwhile.items() if by.gain_db >= middle}
        for made in [worthwhile, better] if len(better) < len(worthwhile) else [worthwhile]:
            factors = {joint: by.factors for joint, by in made.items()}
            done = tuple(joint_site(joint, f"expected noise {-by.gain_db:+.1f} dB") for joint, by in made.items())
            rest = [joint_site(joint, "the outputs keep less with it") for joint in worthwhile if joint not in made]
            folds = {joint: by.of_folds for joint, by in made.items()}
            yield from rescalings(index, factors, done, [*left, *even, *rest], of_folds=folds)


def _reads_large(joint: Joint) -> bool:
    return any(nbytes(reader.weight.tensor) > LARGE for reader in joint.readers)


STEP = EqualizationStep()
