"""SmoothQuant after normalizations, with one alpha for all of them or the best alpha for each."""

from collections.abc import Iterator
from dataclasses import replace

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.ops import ChannelLayout
from qdqtool.models.transforms.rescaling_points import PointKind, RescalingPoint, point_tensors
from qdqtool.numerics.cores import side_by_side
from qdqtool.numerics.product import Factors
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.preparation.factors.equalization import MIGRATION, PointNoise
from qdqtool.quantization.preparation.factors.smoothquant import (
    TriedProduct,
    fold_factors,
    searched_alpha,
    smoothing_factors,
    weight_peaks,
)
from qdqtool.quantization.preparation.rescaling import (
    RescalingStep,
    point_site,
    rescalings,
    tried_weights,
    with_statistics,
)
from qdqtool.quantization.preparation.step import ProposedChange, StepRequest
from qdqtool.quantization.statistics.channel_statistics import ChannelData, sample_rows

LEAST_GAIN_DB = 1.0
"""Smallest expected decrease of the noise at a rescaling point for which alphas are tried: a sixth of a bit."""

ROWS = 256
"""Number of rows of each tensor on which alphas are tried."""


class SmoothQuantStep(RescalingStep):
    """SmoothQuant at the rescaling points after a normalization or a multiplication with a stored vector."""

    order = 30
    thing, done, doing = "normalization", "smoothed", "smoothing the model"
    off = "--smoothquant off"
    kind = PointKind.NORM

    def is_asked(self, request: StepRequest) -> bool:
        """Return whether an alpha is given or activations become integers; floats stay precise for small channels."""
        return _given_alpha(request.asked) is not None or (
            request.asked.smoothquant == "auto" and request.integer_activations
        )

    def disagreement(self, asked: Preparation, *, made: bool) -> str:
        """Return the problem if the model was smoothed but must not be, or was not smoothed but must be."""
        if not made and _given_alpha(asked) is not None:
            return "the ranges were found without the step that --smoothquant asks for"
        return super().disagreement(asked, made=made)

    def is_allowed(self, asked: Preparation) -> bool:
        """Return whether the option is not off."""
        return asked.smoothquant is not None

    def changes(self, model: Model, data: ChannelData, request: StepRequest) -> Iterator[ProposedChange]:
        """Propose factors that make outlier channels smaller, then the nearest powers of two, which round nothing."""
        index = ModelIndex.of(model)
        points, left = self.points(index)
        if not points:
            yield ProposedChange(model=model, left=left)
            return
        given = _given_alpha(request.asked)
        search = _AlphaSearch(index, points, data, given)
        alphas = dict(zip(search.points, side_by_side(search.alpha, search.points), strict=True))
        alone = [point_site(point, "no alpha lowers its noise") for point, alpha in alphas.items() if alpha is None]
        factors = {point: search.factors(point, alpha) for point, alpha in alphas.items() if alpha is not None}
        # An alpha from the user is not tried on the quantized model.
        tried = {point: alpha for point, alpha in alphas.items() if alpha is not None and given is None}
        folds = {point: search.fold_factors(point, alpha) for point, alpha in tried.items()}
        done = tuple(point_site(point, f"alpha {alphas[point]:g}") for point in factors)
        for change in rescalings(index, factors, done, [*left, *alone], of_folds=folds):
            yield replace(change, on_trial=change.on_trial and given is None)


def _given_alpha(asked: Preparation) -> float | None:
    return asked.smoothquant if isinstance(asked.smoothquant, float) else None


class _AlphaSearch:
    """Chooses the alpha of each rescaling point.

    Args:
        index: The index of the model.
        points: The rescaling points of the model.
        data: Statistics of the channels, and samples to take rows from.
        alpha: The alpha of all rescaling points; None to search the best alpha for each.

    Attributes:
        points: The rescaling points with statistics for all readers.
    """

    def __init__(
        self, index: ModelIndex, points: tuple[RescalingPoint, ...], data: ChannelData, alpha: float | None
    ) -> None:
        self._alpha = alpha
        # Weights may be gigabytes: each is read once for its peaks, and not again for every alpha.
        self._peaks: dict[RescalingPoint, Factors] = {}
        self._seen = data.of(index)
        self.points = with_statistics(points, self._seen)
        tried = {value for value, layout in point_tensors(self._with_outliers()) if layout is ChannelLayout.LAST}
        self._rows = sample_rows(index.model, tried, data, ROWS) if tried else {}

    def alpha(self, point: RescalingPoint) -> float | None:
        """Return the alpha of one rescaling point, or None if it should stay unchanged."""
        if self._alpha is not None:
            return self._alpha
        if not all(reader.tensor in self._rows for reader in point.readers):
            return None
        weights = tried_weights(point.readers)
        products = [
            TriedProduct.of(reader, weight, self._rows[reader.tensor])
            for reader, weight in zip(point.readers, weights, strict=True)
        ]
        return searched_alpha(point, self._seen, self._peaks_of(point), products)

    def factors(self, point: RescalingPoint, alpha: float) -> Factors:
        """Return the factors of one rescaling point."""
        return smoothing_factors(point, self._seen, self._peaks_of(point), alpha)

    def fold_factors(self, point: RescalingPoint, alpha: float) -> list[Factors]:
        """Return the factors of one rescaling point for each part of the samples."""
        return fold_factors(point, self._seen, self._peaks_of(point), alpha)

    def _with_outliers(self) -> tuple[RescalingPoint, ...]:
        """Return the rescaling points at which alphas are tried; none if the alpha is given."""
        if self._alpha is not None:
            return ()
        noises = ((point, PointNoise(point, self._seen)) for point in self.points)
        return tuple(point for point, noise in noises if noise.gain_db(self.factors(point, MIGRATION)) >= LEAST_GAIN_DB)

    def _peaks_of(self, point: RescalingPoint) -> Factors:
        if point not in self._peaks:
            self._peaks[point] = weight_peaks(point)
        return self._peaks[point]


STEP = SmoothQuantStep()
