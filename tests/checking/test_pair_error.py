"""The error of a Q on its own input is the one that plain NumPy finds, in total, by channel and in its shares."""

import math

import numpy as np
import pytest
from onnx import TensorProto, helper
from support.qdq import pair_model

from qdqtool import formats
from qdqtool.checking.pair_error import LEAST_DB, LEAST_DB_OF_8_BITS, PairError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.model import Model
from qdqtool.numerics import metrics
from qdqtool.numerics.derive import scale_from_tensor
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantScheme

X = np.random.default_rng(0).normal(size=(6, 500)).astype(np.float32)


def by_hand(x: np.ndarray, scale: np.ndarray, zero: int = 0, low: int = -128, high: int = 127) -> np.ndarray:
    return np.clip(np.rint(x / scale) + zero, low, high)


def error_of(x: np.ndarray, scale: object, zero: int = 0, *, axis: int | None = None, kind: str = "int8") -> PairError:
    """What one array leaves at a Q with these parameters; its codes are made by hand."""
    fmt = formats.get(kind)
    model = pair_model(fmt.onnx_type, zero_point=zero)
    if axis is not None:
        model.proto.graph.node[0].attribute.append(helper.make_attribute("axis", axis))
    (entry, *_) = ModelIndex.of(Model(model.proto)).qdq.nodes
    step = np.asarray(scale, np.float32)
    spread = step if axis is None else np.expand_dims(step, tuple(i for i in range(x.ndim) if i != axis))
    found = PairError(entry, fmt)
    zero_point = np.full(step.shape, zero, fmt.dtype)
    codes = by_hand(np.nan_to_num(x, posinf=1e9, neginf=-1e9), spread, zero, int(fmt.low), int(fmt.high))
    found.add(x, codes.astype(fmt.dtype), step, zero_point)
    return found


@pytest.mark.parametrize(("scale", "zero", "kind"), [(0.03, 0, "int8"), (0.03, 120, "uint8"), (0.5, 0, "int4")])
def test_the_ratio_is_that_of_the_dequantized_codes(scale: float, zero: int, kind: str) -> None:
    found = error_of(X, scale, zero, kind=kind)
    fmt = formats.get(kind)
    y = ((by_hand(X, np.float32(scale), zero, int(fmt.low), int(fmt.high)) - zero) * np.float32(scale)).astype("f4")
    assert found.sqnr_db == pytest.approx(metrics.sqnr_db(X, y), rel=1e-9)
    assert found.lowest_db == found.sqnr_db
    assert found.clipped == np.count_nonzero(np.abs(X.astype(np.float64) - y) > scale * 0.51)
    assert found.vanished == np.count_nonzero((X != 0) & (y == 0))
    assert found.elements == X.size


def test_a_scale_that_is_far_too_large_makes_zeros_and_one_that_is_far_too_small_clips() -> None:
    large, small = error_of(X, 30.0), error_of(X, 3e-5)
    assert large.sqnr_db == pytest.approx(0)
    assert (large.vanished_share, large.one_code_share, large.clipped_share) == (1.0, 1.0, 0.0)
    assert small.sqnr_db == pytest.approx(0, abs=0.05)
    assert small.clipped_share > 0.99
    assert small.one_code_share == pytest.approx(0.5, abs=0.05)
    fitting = np.abs(X).max() / 127
    for found in (large, small):
        assert f"and {fitting:.4g} would fit" in found.describe()
        assert f"[{X.min():.4g}, {X.max():.4g}]" in found.describe()


@pytest.mark.parametrize(("kind", "symmetric"), [("int8", True), ("uint8", False)])
def test_the_scale_that_would_fit_is_the_one_that_planning_derives(kind: str, symmetric: bool) -> None:
    derived = scale_from_tensor(X, QuantScheme(formats.get(kind), PerTensor(), symmetric=symmetric))
    found = error_of(X, 1000.0, int(derived.zero_point or 0), kind=kind)
    assert float(found.describe().split(" and ")[1].split(" would")[0]) == pytest.approx(float(derived.scale), rel=1e-3)


def test_one_channel_of_many_is_seen() -> None:
    scale = np.full(6, 0.03, np.float32)
    scale[4] *= 1000
    found = error_of(X, scale, axis=0)
    assert found.sqnr_db is not None
    assert found.sqnr_db > LEAST_DB_OF_8_BITS
    assert found.worst_channel == (4, pytest.approx(0))
    assert found.lowest_db == pytest.approx(0)
    assert "in channel 4 of 6" in found.describe()
    assert f"[{X[4].min():.4g}, {X[4].max():.4g}], the scale is 30" in found.describe()


def test_dead_channels_are_not_judged_by_themselves() -> None:
    x = X.copy()
    x[2] *= 1e-9
    found = error_of(x, np.full(6, 0.03, np.float32), axis=0)
    assert found.lowest_db is not None
    assert found.lowest_db > 30


def test_masks_and_what_is_not_finite_are_left_out() -> None:
    x = X.copy()
    x[0, :100], x[1, 0], x[1, 1], x[1, 2] = -1e9, np.nan, np.inf, -np.inf
    kept = np.isfinite(x) & (x > -5e3)
    found = error_of(x, 0.03)
    assert found.elements == np.count_nonzero(kept)
    y = np.clip(np.rint(x[kept] / np.float32(0.03)), -128, 127) * np.float32(0.03)
    assert found.sqnr_db == pytest.approx(metrics.sqnr_db(x[kept], y), rel=1e-6)
    # A range that was stretched over the masks leaves nothing of the values.
    assert error_of(x, 1e9 / 127).sqnr_db == pytest.approx(0)
    # A tensor of nothing else has no other signal.
    assert error_of(np.full((1, 4), -2e4, np.float32), 200.0).elements == 4


def test_zeros_and_exact_values_have_no_ratio() -> None:
    assert error_of(np.zeros((2, 3), np.float32), 0.1).lowest_db is None
    assert error_of(np.ones((2, 3), np.float32), 0.5).lowest_db is None


def test_samples_add_up() -> None:
    (entry, *_) = ModelIndex.of(pair_model(TensorProto.INT8)).qdq.nodes
    found, step = PairError(entry, formats.get("int8")), np.float32(0.03)
    for part in np.split(X, 3):
        found.add(part, by_hand(part, step).astype(np.int8), np.asarray(step), None)
    assert found.sqnr_db == pytest.approx(error_of(X, 0.03).sqnr_db, rel=1e-12)
    assert found.one_code_share == error_of(X, 0.03).one_code_share


@pytest.mark.parametrize("kind", ["int8", "uint8", "int4", "uint4", "int2", "uint2", "float8e4m3fn", "float4e2m1"])
def test_scales_that_fit_normal_values_are_far_above_the_limit_of_the_format(kind: str) -> None:
    """And so are those of a range four times as large as the values, except for the two codes of 2 bits."""
    from qdqtool.numerics.affine import quantize

    fmt = formats.get(kind)
    (entry, *_) = ModelIndex.of(pair_model(TensorProto.INT8)).qdq.nodes
    x = np.abs(X) if fmt.low == 0 else X
    params = scale_from_tensor(x, QuantScheme(fmt, PerTensor(), symmetric=fmt.low < 0))
    found = PairError(entry, fmt)
    assert found.least_db == LEAST_DB.get(fmt.bits, LEAST_DB_OF_8_BITS)
    codes = quantize(x, params.scale, fmt, PerTensor(), params.zero_point)
    found.add(x, codes, params.scale, params.zero_point)
    assert found.lowest_db is not None
    assert math.isfinite(found.lowest_db)
    assert found.lowest_db > found.least_db


def test_scores_that_a_mask_of_10000_was_added_to_are_left_out() -> None:
    """-10000 + 3.5 lies above -10000."""
    scores = np.random.default_rng(0).normal(size=200).astype(np.float32)
    scores[::4] -= 10000
    error = error_of(scores.reshape(1, -1), 0.03)
    assert error.elements == 150
    assert error.sqnr_db is not None
    assert error.sqnr_db > 30
