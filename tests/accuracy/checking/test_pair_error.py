"""The error of a Q on its own input is the one that plain NumPy finds, in total, by channel and in its shares."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import helper
from support.metrics import sqnr_db
from support.paths import ROOT
from support.qdq import pair_model, text_model

import qdqtool as qdq
from qdqtool.accuracy.checking.pair_error import LEAST_DB, LEAST_DB_OF_8_BITS, PairError, leads_to_softmax
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.ops.support.imposed_bounds import NO_BOUNDS, ImposedBounds
from qdqtool.numerics import formats
from qdqtool.numerics.derive import scale_from_tensor
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantScheme

X = np.random.default_rng(0).normal(size=(6, 500)).astype(np.float32)


def by_hand(x: np.ndarray, scale: np.ndarray, zero: int = 0, low: int = -128, high: int = 127) -> np.ndarray:
    return np.clip(np.rint(x / scale) + zero, low, high)


def empty(kind: str = "int8", **found: object) -> PairError:
    """The error of a Q before any array, or with what is given."""
    fmt = formats.get(kind)
    return PairError(ModelIndex.of(pair_model(fmt.onnx_type)).qdq.nodes[0], fmt, **found)


def error_of(
    x: np.ndarray, scale: object, zero: int = 0, *, axis: int | None = None, kind: str = "int8", **more: bool
) -> PairError:
    """What one array leaves at a Q with these parameters; its codes are made by hand."""
    fmt = formats.get(kind)
    model = pair_model(fmt.onnx_type, zero_point=zero)
    if axis is not None:
        model.proto.graph.node[0].attribute.append(helper.make_attribute("axis", axis))
    (entry, *_) = ModelIndex.of(Model(model.proto)).qdq.nodes
    step = np.asarray(scale, np.float32)
    spread = step if axis is None else np.expand_dims(step, tuple(i for i in range(x.ndim) if i != axis))
    found = PairError(entry, fmt, **more)
    zero_point = np.full(step.shape, zero, fmt.dtype)
    codes = by_hand(np.nan_to_num(x, posinf=1e9, neginf=-1e9), spread, zero, int(fmt.low), int(fmt.high))
    found.add(x, codes.astype(fmt.dtype), step, zero_point)
    return found


@pytest.mark.parametrize(("scale", "zero", "kind"), [(0.03, 0, "int8"), (0.03, 120, "uint8"), (0.5, 0, "int4")])
def test_the_ratio_is_that_of_the_dequantized_codes(scale: float, zero: int, kind: str) -> None:
    found = error_of(X, scale, zero, kind=kind)
    fmt = formats.get(kind)
    y = ((by_hand(X, np.float32(scale), zero, int(fmt.low), int(fmt.high)) - zero) * np.float32(scale)).astype("f4")
    assert found.sqnr_db == pytest.approx(sqnr_db(X, y), rel=1e-9)
    assert found.lowest_db == found.sqnr_db
    assert found.clipped == np.count_nonzero(np.abs(X.astype(np.float64) - y) > scale * 0.51)
    assert found.vanished == np.count_nonzero((X != 0) & (y == 0))
    assert found.elements == X.size
    outside = np.abs(X.astype(np.float64) - y) > scale * 0.51
    assert found.clip_noise == pytest.approx(np.sum(np.square(X[outside].astype("f8") - y[outside])), rel=1e-6)


def test_clipping_is_told_from_rounding() -> None:
    assert [error_of(X, scale).is_clipping for scale in (30.0, 3e-5)] == [False, True]


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
    found = error_of(x, 0.03, is_masked=True)
    assert found.elements == np.count_nonzero(kept)
    y = np.clip(np.rint(x[kept] / np.float32(0.03)), -128, 127) * np.float32(0.03)
    assert found.sqnr_db == pytest.approx(sqnr_db(x[kept], y), rel=1e-6)
    # A range that was stretched over the masks leaves nothing of the values.
    assert error_of(x, 1e9 / 127, is_masked=True).sqnr_db == pytest.approx(0)
    # A tensor of nothing else has no other signal.
    assert error_of(np.full((1, 4), -2e4, np.float32), 200.0, is_masked=True).elements == 4
    assert error_of(x, 0.03).elements == np.count_nonzero(np.isfinite(x))


def test_zeros_and_exact_values_have_no_ratio() -> None:
    assert error_of(np.zeros((2, 3), np.float32), 0.1).lowest_db is None
    assert error_of(np.ones((2, 3), np.float32), 0.5).lowest_db is None


@pytest.mark.parametrize("kind", ["int8", "uint8", "int4", "uint4", "int2", "uint2", "float8e4m3fn", "float4e2m1"])
def test_scales_that_fit_normal_values_are_far_above_the_limit_of_the_format(kind: str) -> None:
    """And so are those of a range four times as large as the values, except for the two codes of 2 bits."""
    from qdqtool.numerics.affine import quantize

    fmt, found = formats.get(kind), empty(kind)
    x = np.abs(X) if fmt.low == 0 else X
    params = scale_from_tensor(x, QuantScheme(fmt, PerTensor(), symmetric=fmt.low < 0))
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
    error = error_of(scores.reshape(1, -1), 0.03, is_masked=True)
    assert error.elements == 150
    assert error.sqnr_db is not None
    assert error.sqnr_db > 30


CHAIN = """
<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
g (float[4,4] x) => (float[4,4] y)
<float s = {{1.0}}, int8 z = {{0}}, float[4,4] w = {{{weights}}}>
{{
  q = QuantizeLinear (x, s, z)
  d = DequantizeLinear (q, s, z)
  a = Add (d, x)
  {behind}
}}
"""


@pytest.mark.parametrize(
    ("behind", "leads"),
    [
        ("y = Softmax (a)", True),
        ("t = Transpose (a)  u = QuantizeLinear (t, s, z)  v = DequantizeLinear (u, s, z)  y = LogSoftmax (v)", True),
        ("n = Neg (a)  e = Exp (n)  y = Sub (e, x)", True),
        ("y = com.microsoft.Attention (a, w)", True),
        ("y = Relu (a)", False),
        ("p = MatMul (a, w)  y = Softmax (p)", False),
        ("p = Softmax (x)  y = Add (a, p)", False),
    ],
)
def test_only_a_tensor_that_a_softmax_reads_may_have_masks(behind: str, leads: bool) -> None:
    index = ModelIndex.of(text_model(CHAIN.format(behind=behind, weights=", ".join(["1"] * 16))))
    assert leads_to_softmax(index.qdq.nodes[0]) is leads


# --- against a reading of every element by plain Python ---

AXES = {"per-tensor": None, "per-axis 0": 0, "per-axis 1": 1, "per-axis -1": -1, "blocked": None}
SHAPE = (2, 4)


@dataclass(frozen=True)
class Case:
    """Arrays for one Q: values of few bits, so that float32 computes with them exactly."""

    kind: str
    granularity: str
    scale: np.ndarray
    zero: int | None
    samples: list[tuple[np.ndarray, np.ndarray]]
    bounds: ImposedBounds

    @property
    def fmt(self) -> NumberFormat:
        return formats.get(self.kind)

    @property
    def axis(self) -> int | None:
        axis = AXES[self.granularity]
        return None if axis is None else axis % 2

    def scale_at(self, row: int, column: int) -> float:
        if self.axis is not None:
            return float(self.scale[(row, column)[self.axis]])
        return float(self.scale[row, column // 2]) if self.granularity == "blocked" else float(self.scale)

    def error(self) -> PairError:
        model = pair_model(self.fmt.onnx_type)
        quantize = model.proto.graph.node[0]
        if self.granularity == "blocked":
            quantize.attribute.extend([helper.make_attribute("axis", 1), helper.make_attribute("block_size", 2)])
        elif self.axis is not None:
            quantize.attribute.append(helper.make_attribute("axis", AXES[self.granularity]))
        (entry, *_) = ModelIndex.of(Model(model.proto)).qdq.nodes
        found = PairError(entry, self.fmt, self.bounds, is_masked=True)
        zero = None if self.zero is None else np.full(self.scale.shape, self.zero, self.fmt.dtype)
        for x, codes in self.samples:
            found.add(x, codes, self.scale, zero)
        return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(["int8", "uint8", "int4", "uint4", "float8e4m3fn"]))
    granularity = draw(st.sampled_from(list(AXES)))
    fmt, axis = formats.get(kind), AXES[granularity]
    shape = (2, 2) if granularity == "blocked" else () if axis is None else (SHAPE[axis],)
    powers = draw(arrays(np.int64, shape, elements=st.integers(-3, 4)))
    sign = draw(st.sampled_from([1, 1, -1])) if granularity == "per-tensor" else 1
    scale = (sign * 2.0**powers).astype(np.float32)
    zero = draw(st.sampled_from([None, 0, 3])) if fmt.kind == "integer" else draw(st.sampled_from([None, 0]))
    special = st.sampled_from([np.nan, np.inf, -np.inf, -5000.0, -4999.0, -(2.0**17), 0.0])
    number = st.integers(-2400, 2400).map(lambda eighths: eighths / 8)
    x_type = draw(st.sampled_from([np.float32, np.float64, np.float16, ml_dtypes.bfloat16]))
    samples = []
    for _ in range(draw(st.integers(1, 3))):
        values = draw(arrays(np.float64, SHAPE, elements=st.one_of(number, number, number, special)))
        codes = draw(arrays(np.int64, SHAPE, elements=st.integers(int(max(fmt.low, -8)), 7)))
        with np.errstate(over="ignore"):
            samples.append((values.astype(x_type), codes.astype(fmt.dtype)))
    bounds = draw(st.sampled_from([NO_BOUNDS, NO_BOUNDS, ImposedBounds(0.0, math.inf), ImposedBounds(-2.0, 6.0)]))
    return Case(kind, granularity, scale, zero, samples, bounds)


def elements(case: Case) -> Iterator[tuple[int, float, float, float, bool]]:
    """Channel, value, dequantized code, step, and whether the element is compared."""
    for x, codes in case.samples:
        numbers = x.astype(np.float64)
        finite = [float(v) for v in numbers.flat if math.isfinite(v)]
        masked = any(v > -5e3 for v in finite)
        for (row, column), value in np.ndenumerate(numbers):
            step = case.scale_at(row, column)
            y = (float(codes[row, column]) - (case.zero or 0)) * step
            kept = math.isfinite(value) and not (masked and value <= -5e3)
            channel = 0 if case.axis is None else (row, column)[case.axis]
            yield channel, min(max(value, case.bounds.low), case.bounds.high), y, abs(step), kept


@settings(max_examples=150, deadline=None)
@given(cases())
def test_every_count_and_sum_is_that_of_a_loop_over_the_elements(case: Case) -> None:
    found, fmt = case.error(), case.fmt
    every = list(elements(case))
    kept = [(channel, x, y, step) for channel, x, y, step, is_kept in every if is_kept]
    channels = 1 if case.axis is None else SHAPE[case.axis]
    widest = 32 if case.kind == "float8e4m3fn" else 1
    assert found.elements == len(kept)
    assert found.nans == sum(np.count_nonzero(np.isnan(x.astype(np.float64))) for x, _ in case.samples)
    assert found.clipped == sum(abs(x - y) > (0.5 + 1 / 64) * widest * step for _, x, y, step in kept)
    assert found.vanished == sum(x != 0 and y == 0 for _, x, y, _ in kept)
    for channel in range(channels):
        mine = [(x, y) for where, x, y, _ in kept if where == channel]
        assert found.low[channel] == min([x for x, _ in mine], default=math.inf)
        assert found.high[channel] == max([x for x, _ in mine], default=-math.inf)
        assert found.signal[channel] == sum(x * x for x, _ in mine)
        assert found.noise[channel] == sum((x - y) ** 2 for x, y in mine)
    assert found.low.shape == found.high.shape == found.signal.shape == found.noise.shape == (channels,)
    spread = np.abs(case.scale).astype(np.float64)
    assert np.array_equal(found.scale, spread if case.axis is not None else [spread.max()])
    assert found.is_symmetric is bool(fmt.low < 0 and not case.zero)
    counts = Counter(code.tobytes()[0] for _, codes in case.samples for code in codes.reshape(-1))
    assert {code: count for code, count in enumerate(found.codes.tolist()) if count} == counts
    assert found.codes.shape == (256,)
    assert found.one_code_share == max(counts.values()) / sum(counts.values())
    assert found.clipped_share == found.clipped / max(1, len(kept))
    assert found.vanished_share == found.vanished / max(1, len(kept))


def ratio(signal: float, noise: float) -> float | None:
    return 10 * math.log10(signal / noise) if signal and noise else None


@settings(max_examples=150, deadline=None)
@given(cases())
def test_the_lowest_ratio_is_that_of_all_or_of_the_worst_channel_that_counts(case: Case) -> None:
    found = case.error()
    signal, noise = found.signal.tolist(), found.noise.tolist()
    whole = ratio(sum(signal), sum(noise))
    assert found.sqnr_db == (None if whole is None else pytest.approx(whole))
    least = 1e-4 * sum(signal) / len(signal)
    counted = [
        (db, channel)
        for channel, (a, b) in enumerate(zip(signal, noise, strict=True))
        if a >= least and (db := ratio(a, b)) is not None
    ]
    worst = min(counted, default=None) if len(signal) > 1 else None
    if worst is None:
        assert found.worst_channel is None
    else:
        assert found.worst_channel[1] == pytest.approx(worst[0])
        assert counted[[channel for _, channel in counted].index(found.worst_channel[0])][0] == pytest.approx(worst[0])
    known = [db for db in (whole, worst[0] if worst else None) if db is not None]
    assert found.lowest_db == (pytest.approx(min(known)) if known else None)


def told(**found: object) -> str:
    vectors = {name: np.float64(value) if isinstance(value, list) else value for name, value in found.items()}
    return empty(**vectors).describe()


def test_the_worst_channel_is_told_with_its_own_range_and_scale() -> None:
    counts = {"elements": 8, "clipped": 2, "vanished": 4, "codes": [6, 2]}
    line = told(**counts, low=[-1, -254], high=[3, 127], signal=[10, 10], noise=[0.1, 1], scale=[0.5, 4])
    assert line == (
        "10.0 dB SQNR in channel 1 of 2: 25.0% of the values are clipped, 50.0% become 0, 75.0% of the codes are "
        "equal; the values lie in [-254, 127], the scale is 4, and 2 would fit"
    )


@pytest.mark.parametrize(("noise", "db"), [([20, 0, 0], "0.0"), ([20, 1, 0], "-0.2")])
def test_all_channels_are_told_where_none_is_worse_than_the_whole(noise: list[float], db: str) -> None:
    """Channel 0 has an error and no signal: it is not judged by itself, and is in the whole."""
    line = told(elements=8, low=[0, -2, -1], high=[0, 1, 127], signal=[0, 10, 10], noise=noise, scale=[1, 2, 0.5])
    assert line == (
        f"{db} dB SQNR: 0.0% of the values are clipped, 0.0% become 0; the values lie in [-2, 127], the scale is 2, "
        "and 1 would fit"
    )


def test_channels_of_zeros_alone_are_not_judged() -> None:
    found = empty(signal=np.zeros(2), noise=np.ones(2))
    assert (found.worst_channel, found.lowest_db) == (None, None)


@pytest.mark.parametrize(
    ("kind", "symmetric", "low", "high", "fits"),
    [
        ("int8", True, -254, 100, ", and 2 would fit"),
        ("int8", False, -255, 255, ", and 2 would fit"),
        ("uint8", False, 10, 255, ", and 1 would fit"),
        ("uint8", False, -510, -10, ", and 2 would fit"),
        ("uint8", False, -255, 255, ", and 2 would fit"),
        ("int8", True, 0, 0, ""),
    ],
)
def test_the_scale_that_fits_spans_the_values_and_zero(
    kind: str, symmetric: bool, low: float, high: float, fits: str
) -> None:
    line = told(kind=kind, elements=1, low=[low], high=[high], signal=[1], noise=[0], scale=[8], is_symmetric=symmetric)
    assert line == (
        "no SQNR: 0.0% of the values are clipped, 0.0% become 0; the values lie in "
        f"[{low:.4g}, {high:.4g}], the scale is 8{fits}"
    )


@pytest.mark.parametrize(("kind", "widest"), [("int8", 1.0), ("float8e4m3fn", 32.0)])
@pytest.mark.parametrize(("sixtyfourths", "clipped"), [(33, 0), (34, 1)])
def test_an_error_beyond_half_of_the_widest_step_and_its_roundings_is_clipping(
    kind: str, widest: float, sixtyfourths: int, clipped: int
) -> None:
    fmt, found = formats.get(kind), empty(kind)
    x = np.float32([fmt.high + widest * sixtyfourths / 64]) * np.float32(0.25)
    found.add(x, np.array([fmt.high]).astype(fmt.dtype), np.float32(0.25), None)
    assert found.clipped == clipped


def test_float64_is_compared_in_float64_and_what_is_narrower_in_float32() -> None:
    for kind, small, large in (
        (np.float64, 2.0**-80, (2.0**25 - 1) ** 2),
        (np.float32, 0.0, 2.0**50),
        (ml_dtypes.bfloat16, 0.0, 2.0**50),
    ):
        for value, noise in ((1 + 2.0**-40, small), (2.0**25, large)):
            found = empty()
            found.add(np.array([value]).astype(kind), np.int8([1]), np.float32(1), None)
            assert float(found.noise[0]) == noise


def test_codes_of_more_than_8_bits_are_not_counted() -> None:
    found = empty("int16")
    found.add(np.float32([1, 2]), np.int16([10, 20]), np.float32(0.1), None)
    assert found.one_code_share is None
    assert "codes are equal" not in found.describe()


def test_a_channel_with_exactly_that_share_counts() -> None:
    found = empty(signal=np.float64([1, 19999]), noise=np.float64([4, 1]))
    assert found.worst_channel == (0, pytest.approx(10 * math.log10(1 / 4)))


def test_one_zero_point_of_many_makes_the_range_asymmetric() -> None:
    scale, codes = np.float32([1, 1]), np.int8([[0, 0]])
    for zero, symmetric in (([0, 3], False), ([3, 3], False), ([0, 0], True)):
        found = empty()
        found.add(np.float32([[1, 2]]), codes, scale, np.int8(zero))
        found.add(np.float32([[1, 2]]), codes, scale, None)
        assert found.is_symmetric is symmetric


def test_one_element_alone_has_shares() -> None:
    found = error_of(np.float32([[0.001]]), 30.0)
    assert (found.vanished_share, found.clipped_share) == (1.0, 0.0)
    found = error_of(np.float32([[1000.0]]), 0.01)
    assert (found.vanished_share, found.clipped_share) == (0.0, 1.0)
    assert error_of(np.float32([[np.nan]]), 0.01).vanished_share == 0.0


@pytest.mark.parametrize("kind", formats.names())
def test_the_limit_of_each_format_is_the_documented_one(kind: str) -> None:
    page = (ROOT / "docs/explanation/verdicts.md").read_text()
    rows = re.findall(r"^\| ([0-9a-z ]+) \| ([0-9.]+) dB \|", page, re.MULTILINE)
    limits = {bits: float(db) for words, db in rows for bits in words.split() if bits.isdigit()}
    assert empty(kind).least_db == limits[str(min(formats.get(kind).bits, 8))]


def test_the_page_has_the_sqnr_of_normal_values() -> None:
    page = (ROOT / "docs/explanation/verdicts.md").read_text()
    shown = dict(re.findall(r"`(\w+)` (\d+) dB", page))
    x = np.random.default_rng(0).normal(size=(40, 3000)).astype(np.float32)
    for kind, db in shown.items():
        scales, _ = qdq.scale_from_tensor(x, kind, axis=0)
        noise = ((x - qdq.fake_quantize(x, scales, kind, axis=0)) ** 2).sum(axis=1)
        assert np.mean(10 * np.log10((x**2).sum(axis=1) / noise)) == pytest.approx(int(db), abs=0.55)
    assert len(shown) == 5


def test_channels_count_from_their_share_of_the_mean_power_on() -> None:
    mean = (2**20 + 2**20 * 1e-4 * 2) / 3
    for least, judged in ((mean * 1e-4 * 1.001, 2), (mean * 1e-4 * 0.99, 0)):
        signal = np.float64([2**20, 0, least])
        found = empty(signal=signal, noise=np.float64([1, 0, least * 4]))
        assert found.worst_channel[0] == judged
