"""Choose the codes of low-bit weights with data, one matrix after the other, so that products change little."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from qdqtool.errors import QdqError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.offload import offloaded_bytes
from qdqtool.models.payload import Payload
from qdqtool.models.plan import Slot
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.compensation import Compensation, PairedMoments, useful_shares
from qdqtool.numerics.derive import ScaleRule
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.gptq import Factor, Moments, is_within_bound, round_weights
from qdqtool.numerics.granularity import Blocked, Granularity
from qdqtool.numerics.packing import pack
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.statistics.input_moments import InputMoments
from qdqtool.quantization.statistics.sequential_moments import SequentialMoments
from qdqtool.samples.feeds import Feeds, Progress


@dataclass(frozen=True, slots=True, eq=False)
class DerivedScales:
    """Scales of one weight, and the largest magnitude that each scale covers.

    Attributes:
        params: The scales.
        amax: The magnitudes, in the shape of the scales.
        rule: How the scales were derived.
        codes: Packed codes that were chosen with data, on disk if they are large; None for the nearest codes.
    """

    params: QuantParams
    amax: Array
    rule: ScaleRule
    codes: Payload | None = None


Derive = Callable[[Slot, Array], DerivedScales]
"""Derives the scales of a weight from its values."""


@dataclass(frozen=True, slots=True)
class DataRounding:
    """Rounds the matrices of one model.

    Attributes:
        index: The float model.
        feeds: The samples.
        derive: Derives scales.
        progress: Called for each run, with the number of finished runs and of all runs.
    """

    index: ModelIndex
    feeds: Feeds
    derive: Derive
    progress: Progress | None = None

    def of(self, schemes: Mapping[Slot, QuantScheme]) -> dict[Slot, DerivedScales]:
        """Return the scales and codes of every matrix whose inputs can be observed."""
        counts = {slot: self._channels(slot, scheme.granularity) for slot, scheme in schemes.items()}
        channels = {slot: count for slot, count in counts.items() if count is not None}
        rounded = self._in_order({slot: schemes[slot] for slot in channels})
        rest = {slot: count for slot, count in channels.items() if slot not in rounded}
        for slot, moments in InputMoments(self.index, self.feeds, self.progress).of(rest):
            rounded[slot] = self._rounded(slot, self._values(slot), moments)[0]
        return rounded

    def _in_order(self, schemes: Mapping[Slot, QuantScheme]) -> dict[Slot, DerivedScales]:
        """Return the scales and codes of weights whose inputs can be observed in the quantized model."""
        staged = SequentialMoments(self.index, self.feeds, self.progress)
        rounded: dict[Slot, DerivedScales] = {}
        # A model that ONNX Runtime cannot run in parts may run as a whole; if it cannot run at all, that run fails.
        with suppress(QdqError):
            for slots, folds in staged.of(list(schemes)):
                found = self._side_by_side({slot: schemes[slot] for slot in slots}, folds)
                rounded |= {slot: derived for slot, (derived, _) in found.items()}
                for slot, (_, restored) in found.items():
                    staged.decide(slot, restored)
        return rounded

    def _side_by_side(
        self, schemes: Mapping[Slot, QuantScheme], folds: list[PairedMoments]
    ) -> dict[Slot, tuple[DerivedScales, Array]]:
        """Return the scales, codes and values of matrices that read the same inputs; this consumes the moments."""
        matrices = [partial(self._inputs_first, slot, scheme) for slot, scheme in schemes.items()]
        shares = useful_shares(matrices, folds)
        compensation = Compensation.of(folds)
        pairs = zip(schemes.items(), shares, strict=True)
        return {slot: self._compensated(slot, scheme, compensation, share) for (slot, scheme), share in pairs}

    def _compensated(
        self, slot: Slot, scheme: QuantScheme, compensation: Compensation, share: float
    ) -> tuple[DerivedScales, Array]:
        weights = self._values(slot)
        wanted = _turned(compensation.compensated(_turned(weights, scheme), share), scheme)
        if not np.array_equal(wanted, weights):
            wanted = np.ascontiguousarray(wanted, np.float32)
            found, restored = self._rounded(slot, wanted, compensation.factor)
            # A check treats codes that are further away than this as damage.
            if is_within_bound(weights, restored, found.params):
                return found, restored
        return self._rounded(slot, weights, compensation.factor)

    def _rounded(self, slot: Slot, wanted: Array, moments: Moments | Factor) -> tuple[DerivedScales, Array]:
        """Return the scales and codes for the values ``wanted``, and the dequantized values."""
        found = self.derive(slot, wanted)
        codes = round_weights(wanted, found.params, moments)
        restored = dequantize(codes, found.params.scale, found.params.scheme.granularity)
        # The codes of a whole model need half a byte for each weight until they are written.
        kept = offloaded_bytes(pack(codes, found.params.scheme.format).tobytes())
        return replace(found, codes=kept), restored

    def _values(self, slot: Slot) -> Array:
        weights = self.index.constant(self.index.value(slot))
        assert weights is not None
        return weights

    def _inputs_first(self, slot: Slot, scheme: QuantScheme) -> Array:
        return _turned(self._values(slot), scheme)

    def _channels(self, slot: Slot, granularity: Granularity) -> int | None:
        """Return the number of input channels of a matrix in blocks; None for other weights and unknown extents."""
        shape = self.index.types.shape(self.index.value(slot)) or ()
        if not isinstance(granularity, Blocked) or len(shape) != 2:
            return None
        extent = shape[granularity.axis]
        return extent if isinstance(extent, int) else None


def _turned(matrix: Array, scheme: QuantScheme) -> Array:
    """Transpose a stored matrix to ``[inputs, outputs]``, or back; blocks lie along its inputs."""
    assert isinstance(scheme.granularity, Blocked)
    return matrix if scheme.granularity.axis % 2 == 0 else matrix.T
