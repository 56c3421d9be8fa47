"""AWQ in low-bit weight-only modes, at the rescaling points where codes that are chosen with data also gain."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import ScopePath
from qdqtool.models.ops import ChannelLayout
from qdqtool.models.transforms.rescaling_points import (
    PointKind,
    Reader,
    RescalingPoint,
    find_rescaling_points,
    point_tensors,
)
from qdqtool.numerics.granularity import Blocked
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.calibration_report import Site
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.preparation.factors.awq import AwqFactors, TriedBlockProduct, searched_factors
from qdqtool.quantization.preparation.rescaling import RescalingStep, point_site, rescalings, tried_weights
from qdqtool.quantization.preparation.step import ProposedChange, Slots, StepRequest
from qdqtool.quantization.statistics.channel_statistics import ChannelData, sample_rows

ROWS = 1024
"""Number of rows of each tensor on which factors are tried: half of them choose factors, the other half tests them."""

Schemes = Mapping[tuple[ScopePath, NodeKey], QuantScheme]
"""Schemes of weights in blocks, by the product that reads the weight."""


class AwqStep(RescalingStep):
    """AWQ at the rescaling points after normalizations, multiplications with a stored vector, and products."""

    order = 40
    thing, done, doing = "layer", "scaled by AWQ", "scaling the model by AWQ"
    off = "--awq off"

    def is_asked(self, request: StepRequest) -> bool:
        """Return whether weights get few bits and the user has not disabled the step."""
        return super().is_asked(request) and request.few_bits and request.slots is not None

    def is_allowed(self, asked: Preparation) -> bool:
        """Return the value of the option ``awq``."""
        return asked.awq

    def points(self, index: ModelIndex) -> tuple[tuple[RescalingPoint, ...], tuple[Site, ...]]:
        """Return the rescaling points after layers of every kind; layers without points are not listed."""
        return tuple(point for kind in PointKind for point in find_rescaling_points(index, kind)[0]), ()

    def changes(self, model: Model, data: ChannelData, request: StepRequest) -> Iterator[ProposedChange]:
        """Propose the best factors of the points that gain, then the nearest powers of two, which round nothing."""
        index = ModelIndex.of(model)
        points, _ = self.points(index)
        schemes = _schemes(index, request.slots) if points and request.slots is not None else {}
        found = _search(index, [point for point in points if _is_in_blocks(point, schemes)], schemes, data)
        done = tuple(point_site(point, f"alpha {by.alpha:g}, {by.gain_db:.1f} dB") for point, by in found.items())
        factors = {point: by.factors for point, by in found.items()}
        for change in rescalings(index, factors, done, (), of_folds={}):
            # This change was judged by products with chosen codes; a trial would use the nearest codes.
            yield replace(change, on_trial=False)


def _search(
    index: ModelIndex, points: list[RescalingPoint], schemes: Schemes, data: ChannelData
) -> Mapping[RescalingPoint, AwqFactors]:
    tensors = {value for value, layout in point_tensors(tuple(points)) if layout is ChannelLayout.LAST}
    rows = sample_rows(index.model, tensors, data, ROWS) if tensors else {}

    def products(readers: Sequence[Reader]) -> list[TriedBlockProduct]:
        weights = tried_weights(readers)
        return [
            TriedBlockProduct(weight, schemes[_key(reader)], rows[reader.tensor], reader.repeat)
            for reader, weight in zip(readers, weights, strict=True)
        ]

    found: dict[RescalingPoint, AwqFactors] = {}
    for point in points:
        if all(reader.tensor in rows and len(rows[reader.tensor]) > 1 for reader in point.readers):
            best = searched_factors(products(point.readers))
            if best is not None:
                found[point] = best
    return found


def _schemes(index: ModelIndex, slots: Slots) -> Schemes:
    """Return the schemes of matrices in blocks, in the layout ``[K, N]``."""
    found: dict[tuple[ScopePath, NodeKey], QuantScheme] = {}
    for entry in slots(index):
        granularity = entry.scheme.granularity
        for use in entry.slot.uses or ():
            if isinstance(granularity, Blocked) and use.index == 1:
                found[use.scope, use.node] = replace(entry.scheme, granularity=Blocked(0, granularity.block_size))
    return found


def _is_in_blocks(point: RescalingPoint, schemes: Schemes) -> bool:
    return all(_key(reader) in schemes and reader.layout is ChannelLayout.LAST for reader in point.readers)


def _key(reader: Reader) -> tuple[ScopePath, NodeKey]:
    return reader.weight.node.scope.path, reader.weight.node.key


STEP = AwqStep()
