"""The bound of codes that GPTQ chose: met channel by channel, in pieces of any size."""

import numpy as np
import pytest

from qdqtool.numerics import formats, gptq
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.gptq import MOST_RMS_STEPS, is_within_bound
from qdqtool.numerics.granularity import Blocked
from qdqtool.numerics.scheme import QuantParams, QuantScheme

K, N = 64, 10
SCALE = 0.05


@pytest.mark.parametrize("piece", [1, 3 * K, 1 << 22])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("channel", [0, 5, N - 1])
def test_one_channel_too_far_away_is_found_wherever_it_lies(channel, axis, piece, monkeypatch):
    monkeypatch.setattr(gptq, "PIECE", piece)
    weights = np.random.default_rng(1).uniform(-0.3, 0.3, (K, N)).astype(np.float32)
    scheme = QuantScheme(format=formats.get("int4"), granularity=Blocked(axis, 16))
    shape = (K // 16, N) if axis == 0 else (N, K // 16)
    params = QuantParams(scheme=scheme, scale=np.full(shape, SCALE, np.float32))
    weights = weights if axis == 0 else np.ascontiguousarray(weights.T)
    codes = quantize(weights, params.scale, scheme.format, scheme.granularity)
    restored = dequantize(codes, params.scale, scheme.granularity)
    assert is_within_bound(weights, restored, params)
    one = (slice(None), channel) if axis == 0 else channel
    for steps, within in ((0.98 * MOST_RMS_STEPS, True), (1.02 * MOST_RMS_STEPS, False)):
        moved = restored.copy()
        moved[one] = weights[one] + np.float32(steps * SCALE)
        assert is_within_bound(weights, moved, params) is within
    restored[one] = np.nan
    assert not is_within_bound(weights, restored, params)
