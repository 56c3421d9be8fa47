"""Equalize the channels of tensors between layers if their ranges are uneven and the expected noise falls."""

from collections.abc import Iterator
from statistics import median

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.tensors import nbytes
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.rescaling_points import PointKind, RescalingPoint
from qdqtool.numerics.cores import LARGE, side_by_side
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.preparation.factors.equalization import MIGRATIONS, RANDOM_MIGRATIONS, BestFactors, PointNoise
from qdqtool.quantization.preparation.factors.importance import channel_importance
from qdqtool.quantization.preparation.rescaling import RescalingStep, point_site, rescalings, with_statistics
from qdqtool.quantization.preparation.step import ProposedChange, StepRequest
from qdqtool.quantization.statistics.channel_statistics import ChannelData

LEAST_GAIN_DB = 1.0
"""A point is equalized if the expected noise falls by this much: a sixth of a bit, the precision of the estimate."""


class EqualizationStep(RescalingStep):
    """Cross-layer equalization at the rescaling points between layers with weights."""

    order = 20
    thing, done, doing = "layer", "equalized", "equalizing the model"
    off = "--no-equalize"
    kind = PointKind.PRODUCT

    def is_allowed(self, asked: Preparation) -> bool:
        """Return the value of the option ``equalize``."""
        return asked.equalize

    def changes(self, model: Model, data: ChannelData, request: StepRequest) -> Iterator[ProposedChange]:
        """Propose the factors with the least expected noise, then the nearest powers of two, which round nothing.

        Then propose the same only at the rescaling points whose expected gain is at least the median.
        """
        index = ModelIndex.of(model)
        points, left = self.points(index)
        if not points:
            yield ProposedChange(model=model, left=left)
            return
        seen = data.of(index)
        importance = channel_importance(index)
        tried = MIGRATIONS if data.feeds.description.seed is None else RANDOM_MIGRATIONS

        def best(point: RescalingPoint) -> BestFactors:
            return PointNoise(point, seen, importance, rounded_inputs=request.integer_activations).best_factors(tried)

        usable = with_statistics(points, seen)
        found = dict(zip(usable, side_by_side(best, usable, _reads_large), strict=True))
        worthwhile = {point: by for point, by in found.items() if by.gain_db >= LEAST_GAIN_DB}
        even = [point_site(point, "its channels have similar ranges") for point in points if point not in worthwhile]
        middle = median(by.gain_db for by in worthwhile.values()) if worthwhile else 0.0
        better = {point: by for point, by in worthwhile.items() if by.gain_db >= middle}
        for made in [worthwhile, better] if len(better) < len(worthwhile) else [worthwhile]:
            factors = {point: by.factors for point, by in made.items()}
            done = tuple(point_site(point, f"expected noise {-by.gain_db:+.1f} dB") for point, by in made.items())
            rest = [
                point_site(point, "it makes the outputs less accurate") for point in worthwhile if point not in made
            ]
            folds = {point: by.of_folds for point, by in made.items()}
            yield from rescalings(index, factors, done, [*left, *even, *rest], of_folds=folds)


def _reads_large(point: RescalingPoint) -> bool:
    return any(nbytes(reader.weight.tensor) > LARGE for reader in point.readers)


STEP = EqualizationStep()
