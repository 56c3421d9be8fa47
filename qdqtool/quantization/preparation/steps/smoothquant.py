"""SmoothQuant behind normalizations, with one alpha for all of them or the best for each."""

from collections.abc import Iterator
from dataclasses import replace

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.ops import ChannelLayout
from qdqtool.models.ops.support.weights import StoredWeight
from qdqtool.models.transforms.joints import Joint, JointKind, joint_tensors
from qdqtool.numerics.cores import side_by_side
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors
from qdqtool.quantization.planning.recipe import Preparation
from qdqtool.quantization.preparation.factors.equalization import MIGRATION, JointNoise
from qdqtool.quantization.preparation.factors.smoothquant import (
    TriedProduct,
    fold_factors,
    searched_alpha,
    smoothing_factors,
    weight_peaks,
)
from qdqtool.quantization.preparation.rescaling import (
    RescalingStep,
    joint_site,
    rescalings,
    tried_weights,
    with_statistics,
)
from qdqtool.quantization.preparation.step import Change, StepRequest
from qdqtool.quantization.statistics.channel_statistics import ChannelData, sample_rows

LEAST_GAIN_DB = 1.0
"""By how much the expected noise must fall at a joint before alphas are tried there: a sixth of a bit."""

ROWS = 256
"""Rows of each tensor on which alphas are tried."""


class SmoothQuantStep(RescalingStep):
    """SmoothQuant at the joints behind a normalization or a multiplication with a stored vector."""

    order = 30
    thing, done = "normalization", "smoothed"
    off = "--smoothquant off"
    kind = JointKind.NORM

    def is_asked(self, request: StepRequest) -> bool:
        """Return whether an alpha is given, or activations become integers: others keep small channels precise."""
        return _given_alpha(request.asked) is not None or (
            request.asked.smoothquant == "auto" and request.integer_activations
        )

    def disagreement(self, asked: Preparation, *, made: bool) -> str:
        """Return the problem where the model was smoothed and must not be, or was not and must be."""
        if made and asked.smoothquant is None:
            return "the ranges were found after smoothing the model, which --smoothquant off forbids"
        if not made and _given_alpha(asked) is not None:
            return "the ranges were found without the step that --smoothquant asks for"
        return ""

    def changes(self, model: Model, data: ChannelData, request: StepRequest) -> Iterator[Change]:
        """Propose factors that make outlier channels smaller, then the nearest powers of two, which round nothing."""
        index = ModelIndex.of(model)
        joints, left = self.joints(index)
        if not joints:
            yield Change(model=model, left=left)
            return
        given = _given_alpha(request.asked)
        search = _Search(index, joints, data, given)
        alphas = dict(zip(search.joints, side_by_side(search.alpha, search.joints), strict=True))
        alone = [joint_site(joint, "it is better as it is") for joint, alpha in alphas.items() if alpha is None]
        factors = {joint: search.factors(joint, alpha) for joint, alpha in alphas.items() if alpha is not None}
        # An alpha that the user gave is not tried on the quantized model.
        tried = {joint: alpha for joint, alpha in alphas.items() if alpha is not None and given is None}
        folds = {joint: search.fold_factors(joint, alpha) for joint, alpha in tried.items()}
        done = tuple(joint_site(joint, f"alpha {alphas[joint]:g}") for joint in factors)
        for change in rescalings(index, factors, done, [*left, *alone], of_folds=folds):
            yield replace(change, on_trial=change.on_trial and given is None)


def _given_alpha(asked: Preparation) -> float | None:
    return asked.smoothquant if isinstance(asked.smoothquant, float) else None


class _Search:
    """Chooses alphas.

    Args:
        index: The index of the model.
        joints: Its joints.
        data: Statistics of their channels, and samples to take rows from.
        alpha: The alpha of all joints; None to search the best for each.

    Attributes:
        joints: Those whose every reader has statistics.
    """

    def __init__(self, index: ModelIndex, joints: tuple[Joint, ...], data: ChannelData, alpha: float | None) -> None:
        self._model = index.model
        self._alpha = alpha
        # Weights may be gigabytes: each is read once for its peaks, and not for every alpha.
        self._peaks: dict[Joint, Factors] = {}
        self._seen = data.of(index)
        self.joints = with_statistics(joints, self._seen)
        tried = {value for value, layout in joint_tensors(self._with_outliers()) if layout is ChannelLayout.LAST}
        self._rows = sample_rows(index.model, tried, data, ROWS) if tried else {}

    def alpha(self, joint: Joint) -> float | None:
        """The alpha of one joint; None where the joint is better left alone."""
        if self._alpha is not None:
            return self._alpha
        if not all(reader.tensor in self._rows for reader in joint.readers):
            return None
        weights = tried_weights(joint.readers, self._read)
        products = [
            TriedProduct.of(reader, weight, self._rows[reader.tensor])
            for reader, weight in zip(joint.readers, weights, strict=True)
        ]
        return searched_alpha(joint, self._seen, self._peaks_of(joint), products)

    def factors(self, joint: Joint, alpha: float) -> Factors:
        """The factors of one joint."""
        return smoothing_factors(joint, self._seen, self._peaks_of(joint), alpha)

    def fold_factors(self, joint: Joint, alpha: float) -> list[Factors]:
        """The factors of one joint on each part of the samples."""
        return fold_factors(joint, self._seen, self._peaks_of(joint), alpha)

    def _with_outliers(self) -> tuple[Joint, ...]:
        """The joints at which alphas are tried: none where alpha is given."""
        if self._alpha is not None:
            return ()
        return tuple(joint for joint in self.joints if self._expected_gain(joint) >= LEAST_GAIN_DB)

    def _expected_gain(self, joint: Joint) -> float:
        return JointNoise(joint, self._seen, self._read).gain_db(self.factors(joint, MIGRATION))

    def _peaks_of(self, joint: Joint) -> Factors:
        if joint not in self._peaks:
            self._peaks[joint] = weight_peaks(joint, self._read)
        return self._peaks[joint]

    def _read(self, weight: StoredWeight) -> Array:
        return weight.read(self._model)


STEP = SmoothQuantStep()
