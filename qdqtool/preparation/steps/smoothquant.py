"""SmoothQuant behind normalizations, with one alpha for all or the best for each."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.view import GraphView
from qdqtool.graph.index.weights import StoredWeight
from qdqtool.graph.model import Model
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors
from qdqtool.preparation.factor_records import joint_site, with_statistics
from qdqtool.preparation.factors.equalization import MIGRATION, JointNoise
from qdqtool.preparation.factors.smoothquant import searched_alpha, smoothing_factors
from qdqtool.preparation.rescaling import rescaled_again, rescalings
from qdqtool.preparation.step import Change, Site
from qdqtool.running.channel_statistics import ChannelData, sample_rows
from qdqtool.transforms.joints import Joint, JointKind, Layout, find_joints, joint_tensors

LEAST_GAIN_DB = 1.0
"""Noise that must be expected to go for a search to be made: a sixth of a bit."""

ROWS = 256
"""Rows of each tensor on which alphas are tried."""


class SmoothQuantStep:
    """Every joint behind a normalization or a multiplication with a stored vector.

    Args:
        alpha: For all of them; None to search one for each.
    """

    name = "smoothquant"

    def __init__(self, alpha: float | None = None) -> None:
        self._alpha = alpha

    def changes(self, model: Model, data: ChannelData) -> Iterator[Change]:
        """Factors from outliers on the first samples; then the nearest powers of two, which round nothing."""
        view = GraphView(model)
        joints, alone = find_joints(view, Constants(view), JointKind.NORM)
        left = [Site(name=entry.node, graph=entry.graph, note=entry.reason) for entry in alone]
        if not joints:
            yield Change(model=model, left=tuple(left))
            return
        search = _Search(view, joints, data, self._alpha)
        alphas = {joint: search.alpha(joint) for joint in search.joints}
        left += [joint_site(joint, "it is better as it is") for joint, alpha in alphas.items() if alpha is None]
        factors = {joint: search.factors(joint, alpha) for joint, alpha in alphas.items() if alpha is not None}
        done = tuple(joint_site(joint, f"alpha {alphas[joint]:g}") for joint in factors)
        for change in rescalings(view, factors, done, left):
            yield replace(change, on_trial=change.on_trial and self._alpha is None)  # an alpha that is given is taken

    def replay(self, model: Model, parameters: Mapping[str, Any]) -> Change:
        """The recorded factors."""
        return rescaled_again(model, JointKind.NORM, parameters, self.name)


class _Search:
    """What alphas are chosen from."""

    def __init__(self, view: GraphView, joints: tuple[Joint, ...], data: ChannelData, alpha: float | None) -> None:
        self._model = view.model
        self._alpha = alpha
        self._seen = data.of(view)
        self.joints = with_statistics(joints, self._seen)
        tried = {value for value, layout in joint_tensors(self._with_outliers()) if layout is Layout.LAST}
        self._rows = sample_rows(view.model, tried, data, ROWS) if tried else {}

    def alpha(self, joint: Joint) -> float | None:
        """Given, or searched; None where the joint is better left alone."""
        if self._alpha is not None:
            return self._alpha
        if not all(reader.tensor in self._rows for reader in joint.readers):
            return None
        return searched_alpha(joint, self._seen, self._read, self._rows)

    def factors(self, joint: Joint, alpha: float) -> Factors:
        """The factors of one joint."""
        return smoothing_factors(joint, self._seen, self._read, alpha)

    def _with_outliers(self) -> tuple[Joint, ...]:
        """The joints that are worth a search: none where alpha is given."""
        if self._alpha is not None:
            return ()
        return tuple(joint for joint in self.joints if self._expected_gain(joint) >= LEAST_GAIN_DB)

    def _expected_gain(self, joint: Joint) -> float:
        return JointNoise(joint, self._seen, self._read).gain_db(self.factors(joint, MIGRATION))

    def _read(self, weight: StoredWeight) -> Array:
        return weight.read(self._model)
