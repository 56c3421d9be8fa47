"""Choose the codes of weights of few bits with data, matrix after matrix, so that products change little."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from qdqtool.checking.gptq_check import is_within_bound
from qdqtool.data import Feeds
from qdqtool.data.feeds import Progress
from qdqtool.errors import QdqError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.compensation import PairedMoments, compensated, total
from qdqtool.numerics.derive import ScaleRule
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.gptq import Moments, round_weights
from qdqtool.numerics.granularity import Blocked
from qdqtool.numerics.packing import pack
from qdqtool.numerics.scheme import QuantParams
from qdqtool.plan import Slot
from qdqtool.planning.placement import ProposedSlot
from qdqtool.running.input_moments import InputMoments
from qdqtool.running.staged_moments import StagedMoments


@dataclass(frozen=True, slots=True, eq=False)
class DerivedScales:
    """Scales of one weight, and the largest magnitude under each.

    Attributes:
        params: The scales.
        amax: The magnitudes, in the scales' shape.
        rule: How the scales were derived.
        codes: Packed codes that data chose; None for the nearest ones.
    """

    params: QuantParams
    amax: Array
    rule: ScaleRule
    codes: bytes | None = None


Derive = Callable[[ProposedSlot, Array], DerivedScales]
"""Derives the scales of a weight from its values."""


@dataclass(frozen=True, slots=True)
class DataRounding:
    """Rounds the matrices of one model.

    Attributes:
        index: The float model.
        feeds: The samples.
        derive: Derives scales.
        progress: Told of every run.
    """

    index: ModelIndex
    feeds: Feeds
    derive: Derive
    progress: Progress | None = None

    def of(self, slots: Sequence[ProposedSlot]) -> dict[Slot, DerivedScales]:
        """Return the scales and codes of every matrix whose inputs can be observed.

        Raises:
            UsageError: The model fails on a sample, or a weight cannot be read or is not finite.
        """
        entries = {entry.slot: entry for entry in slots}
        counts = {slot: _channels(entry, self.index) for slot, entry in entries.items()}
        channels = {slot: count for slot, count in counts.items() if count is not None}
        rounded = self._in_order({slot: entries[slot] for slot in channels})
        rest = {slot: count for slot, count in channels.items() if slot not in rounded}
        for slot, moments in InputMoments(self.index, self.feeds, self.progress).of(rest):
            rounded[slot] = self._rounded(entries[slot], self._values(slot), moments)[0]
        return rounded

    def _in_order(self, entries: Mapping[Slot, ProposedSlot]) -> dict[Slot, DerivedScales]:
        """Return those of weights whose inputs can be observed in the quantized model."""
        staged = StagedMoments(self.index, self.feeds, self.progress)
        rounded: dict[Slot, DerivedScales] = {}
        # What ONNX Runtime does not run in parts, it may run as a whole; what it does not run at all fails there.
        with suppress(QdqError):
            for slot, folds in staged.of(list(entries)):
                rounded[slot], restored = self._compensated(entries[slot], self._values(slot), folds)
                staged.decide(slot, restored)
        return rounded

    def _compensated(
        self, entry: ProposedSlot, weights: Array, folds: Sequence[PairedMoments]
    ) -> tuple[DerivedScales, Array]:
        granularity, moments = entry.scheme.granularity, total(folds)
        assert isinstance(granularity, Blocked)
        inputs_first = granularity.axis % 2 == 0
        wanted = compensated(weights if inputs_first else weights.T, folds)
        wanted = wanted if inputs_first else wanted.T
        if not np.array_equal(wanted, weights):
            found, restored = self._rounded(entry, np.ascontiguousarray(wanted, np.float32), moments)
            # A check takes codes further away than this for damage.
            if is_within_bound(weights, restored, found.params):
                return found, restored
        return self._rounded(entry, weights, moments)

    def _rounded(self, entry: ProposedSlot, wanted: Array, moments: Moments) -> tuple[DerivedScales, Array]:
        """Return the scales and codes of these values, and the values that the codes stand for."""
        found = self.derive(entry, wanted)
        codes = round_weights(wanted, found.params, moments)
        restored = dequantize(codes, found.params.scale, entry.scheme.granularity)
        return replace(found, codes=pack(codes, entry.scheme.format).tobytes()), restored

    def _values(self, slot: Slot) -> Array:
        weights = self.index.constant(self.index.value(slot))
        assert weights is not None
        return weights


def _channels(entry: ProposedSlot, index: ModelIndex) -> int | None:
    """Return the number of input channels of a matrix in blocks; None for what is none, or of unknown extents."""
    granularity, shape = entry.scheme.granularity, index.types.shape(index.value(entry.slot)) or ()
    if not isinstance(granularity, Blocked) or len(shape) != 2:
        return None
    extent = shape[granularity.axis]
    return extent if isinstance(extent, int) else None
