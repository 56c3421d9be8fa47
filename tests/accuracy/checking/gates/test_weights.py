"""The gate on weights: scales in another unit fail, whether weights are stored as floats or as codes."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from support.qdq import constant, text_model
from support.small import make_model

from qdqtool.accuracy.checking.boundaries import Boundary
from qdqtool.accuracy.checking.gates.weights import results
from qdqtool.accuracy.checking.gptq_check import GptqCheck, NotedRounding
from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.pair_error import PairError
from qdqtool.accuracy.checking.report import CheckReport, GateResult
from qdqtool.jobs.check import check_model
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.numerics import formats
from qdqtool.numerics.affine import quantize
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.numerics.search import least_error

Change = Callable[[np.ndarray], np.ndarray]

W = np.random.default_rng(3).normal(size=(8, 6)).astype(np.float32)
FITTING = (np.abs(W).max(axis=0) / 127).astype(np.float32)
ANY_STEPS = CheckOptions(gates=Gates(max_weight_steps=float("inf")))


def baseline() -> Model:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="matmul")]
    return Model(make_model(nodes, {"x": ("N", 8)}, {"y": ("N", 6)}, {"w": W}, opset=21, ir_version=10))


def stored_as_floats(scale: np.ndarray) -> Model:
    """W -> Q -> DQ -> MatMul, per-axis on the columns."""
    nodes = [
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["c"], axis=1),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["d"], axis=1),
        helper.make_node("MatMul", ["x", "d"], ["y"], name="matmul"),
    ]
    model = make_model(nodes, {"x": ("N", 8)}, {"y": ("N", 6)}, {"w": W, "s": scale}, opset=21, ir_version=10)
    model.graph.initializer.append(constant("z", np.zeros(6), T.INT8))
    return Model(model)


def stored_as_codes(scale: np.ndarray) -> Model:
    """Codes -> DQ -> MatMul; the codes are the nearest with that scale."""
    codes = quantize(W, scale, formats.get("int8"), PerAxis(1))
    nodes = [
        helper.make_node("DequantizeLinear", ["c", "s"], ["d"], axis=1, name="dequantize"),
        helper.make_node("MatMul", ["x", "d"], ["y"], name="matmul"),
    ]
    model = make_model(nodes, {"x": ("N", 8)}, {"y": ("N", 6)}, {"s": scale}, opset=21, ir_version=10)
    model.graph.initializer.append(numpy_helper.from_array(codes.astype(np.int8), "c"))
    return Model(model)


def weights(report: CheckReport) -> GateResult:
    return next(gate for gate in report.gates if gate.name == "weights")


@pytest.mark.parametrize("made", [stored_as_floats, stored_as_codes])
@pytest.mark.parametrize("options", [CheckOptions(), ANY_STEPS])
def test_scales_that_fit_pass(made: Callable[[np.ndarray], Model], options: CheckOptions) -> None:
    gate = weights(check_model(made(FITTING), baseline=baseline(), options=options))
    assert (gate.passed, gate.detail) == (True, "1 weight")


@pytest.mark.parametrize(("factor", "words"), [(1e-3, "% of the values are clipped"), (1000.0, "100.0% become 0")])
@pytest.mark.parametrize("made", [stored_as_floats, stored_as_codes])
@pytest.mark.parametrize("options", [CheckOptions(), ANY_STEPS])
def test_scales_in_another_unit_fail_and_say_what_they_do(
    made: Callable[[np.ndarray], Model], factor: float, words: str, options: CheckOptions
) -> None:
    scale = (FITTING * np.float32(factor)).astype(np.float32)
    gate = weights(check_model(made(scale), baseline=baseline(), options=options))
    (failure,) = gate.failures
    assert words in failure
    assert "would fit" in failure


@pytest.mark.parametrize("made", [stored_as_floats, stored_as_codes])
def test_one_channel_in_another_unit_fails(made: Callable[[np.ndarray], Model]) -> None:
    scale = FITTING.copy()
    scale[3] *= 1000
    (failure,) = weights(check_model(made(scale), baseline=baseline())).failures
    assert "SQNR in channel 3 of 6" in failure


def test_float_weights_are_judged_without_a_baseline_and_codes_are_not() -> None:
    bad = (FITTING * np.float32(1000)).astype(np.float32)
    (failure,) = weights(check_model(stored_as_floats(bad))).failures
    assert failure.startswith(
        "weight 'w', quantized at 'QuantizeLinear -> c': 0.0 dB SQNR: 0.0% of the values are clipped"
    )
    assert failure.endswith("the scale is 26.17, and 0.02617 would fit")
    assert all(gate.name != "weights" for gate in check_model(stored_as_codes(bad)).gates)


def test_renaming_every_tensor_hides_no_weight() -> None:
    model = stored_as_codes((FITTING * np.float32(1000)).astype(np.float32)).proto
    for node in model.graph.node:
        node.name = f"n_{node.name}"
        node.input[:] = [name if name == "x" else f"t_{name}" for name in node.input]
        node.output[:] = [name if name == "y" else f"t_{name}" for name in node.output]
    for tensor in model.graph.initializer:
        tensor.name = f"t_{tensor.name}"
    onnx.checker.check_model(model)
    report = check_model(Model(model), baseline=baseline())
    (failure,) = weights(report).failures
    assert failure.startswith(f"weight 'w', packed at '{model.graph.node[0].name}': ")
    assert report.not_observed == ()


# --- scales whose clipped values are no fault of a single code ---

LARGE = np.random.default_rng(5).normal(size=(64, 24)).astype(np.float32)


def packed(kind: str, granularity: Granularity, change: Change = lambda scale: scale) -> tuple[Model, Model]:
    """A product with the nearest codes for changed scales, and its float baseline."""
    fmt = formats.get(kind)
    scheme = QuantScheme(fmt, granularity)
    made = least_error(LARGE, scheme, ScaleRule())[0] if kind == "int4" else scale_from_tensor(LARGE, scheme)
    scale = np.asarray(change(made.scale), np.float32)
    axis = {} if isinstance(granularity, PerTensor) else {"axis": granularity.axis}
    block = {"block_size": granularity.block_size} if isinstance(granularity, Blocked) else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["c", "s"], ["d"], name="dequantize", **axis, **block),
        helper.make_node("MatMul", ["x", "d"], ["y"], name="matmul"),
    ]
    interface = {"x": ("N", 64)}, {"y": ("N", 24)}
    quantized = make_model(nodes, *interface, {"s": scale}, opset=21, ir_version=10)
    quantized.graph.initializer.append(constant("c", quantize(LARGE, scale, fmt, granularity), fmt.onnx_type))
    plain = [helper.make_node("MatMul", ["x", "w"], ["y"], name="matmul")]
    return Model(quantized), Model(make_model(plain, *interface, {"w": LARGE}, opset=21, ir_version=10))


def on_one(place: int | tuple[int, ...], factor: float) -> Change:
    def change(scale: np.ndarray) -> np.ndarray:
        changed = scale.copy()
        changed[place] *= np.float32(factor)
        return changed

    return change


@pytest.mark.parametrize(
    ("kind", "granularity", "change", "words"),
    [
        *(("int4", Blocked(0, 32), lambda scale, by=by: scale / by, "") for by in (1.5, 2, 2.5, 3)),
        ("int8", PerAxis(1), lambda scale: scale / 2, ""),
        ("int8", PerTensor(), lambda scale: scale / 2, "the scale is "),
        ("int8", PerAxis(1), on_one(7, 1e-3), "SQNR in channel 7 of 24"),
        ("int8", PerAxis(1), on_one(7, 0.5), "the scale at [7] is "),
        ("int8", PerAxis(1), on_one(7, 6.0), "the scale at [7] is "),
        ("int8", PerAxis(1), on_one(7, 200), "SQNR in channel 7 of 24"),
        ("int4", Blocked(0, 32), on_one((1, 3), 100), "the scale at [1, 3] is "),
    ],
)
def test_scales_that_cost_more_than_usual_fail(kind: str, granularity: Granularity, change: Change, words: str) -> None:
    good, baseline = packed(kind, granularity)
    assert weights(check_model(good, baseline=baseline)).passed
    bad, _ = packed(kind, granularity, change)
    (failure,) = weights(check_model(bad, baseline=baseline)).failures
    assert words in failure
    assert "would fit" in failure
    # The codes are the nearest, so nothing fails where the weights need not be the baseline's.
    assert "SQNR" in failure or weights(check_model(bad, baseline=baseline, options=ANY_STEPS)).passed


@pytest.mark.parametrize(("times", "fits"), [(2.7, True), (2.95, False)])
def test_scales_may_be_so_large_that_the_error_grows_by_3_db(times: float, fits: bool) -> None:
    error = PairError(Findings().of_weight.entry, formats.get("int8"), is_weight=True)
    x = np.linspace(-127, 127, 5001, dtype=np.float32)
    error.add(x, np.rint(x / times).astype(np.int8), np.float32(times), np.int8(0))
    assert (not error.excess) is fits


@pytest.mark.parametrize("changed", [{"is_masked": True}, {"is_weight": False}, {"fmt": formats.get("int32")}])
def test_masks_activations_and_biases_have_no_best_scale(changed: dict[str, object]) -> None:
    error = PairError(Findings().of_weight.entry, **{"fmt": formats.get("int8"), "is_weight": True} | changed)
    x = np.linspace(-127, 127, 5001, dtype=np.float32)
    error.add(x, np.clip(np.rint(x * 2), -128, 127).astype(error.fmt.dtype), np.float32(0.5), None)
    assert error.excess == ""


def test_float_weights_behind_a_q_are_judged_alike() -> None:
    halved = stored_as_floats(FITTING / np.float32(2))
    (failure,) = weights(check_model(halved)).failures
    assert failure.startswith("weight 'w', quantized at 'QuantizeLinear -> c': ")
    assert "more error than with scales that just hold the values; the scale at [" in failure
    assert weights(check_model(halved, options=ANY_STEPS)).passed


@pytest.mark.parametrize(
    ("count", "scale", "fits"), [(15, 1.0, True), (16, 1.0, False), (15, 2.2, True), (15, 2.5, False)]
)
def test_few_values_may_all_be_far_from_their_codes(count: int, scale: float, fits: bool) -> None:
    """Each is 0.49 steps from its code. With 16 values, at most 3 dB are usual, with fewer 6 dB."""
    found = Findings()
    x = (np.arange(count, dtype=np.float32) * 3 + np.float32(0.49)) * np.float32(scale)
    x[-1] = 127
    error = PairError(found.of_weight.entry, formats.get("int8"), is_weight=True)
    error.add(x, np.rint(x / scale).astype(np.int8), np.float32(scale), np.int8(0))
    assert (not error.excess) is fits


# --- on findings that are given ---

MIXED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[3] x) => (float[3] y)
<float s = {1.0}, int8[3] codes = {1, 2, 3}, float[3] w = {1, 2, 3}>
{
  q = QuantizeLinear (x, s)
  a = DequantizeLinear (q, s)
  v = QuantizeLinear (w, s)
  b = DequantizeLinear (v, s)
  c = DequantizeLinear (codes, s)
  t = Add (a, b)
  y = Add (t, c)
}
"""


class Findings:
    """What a check has found so far at the nodes of ``MIXED``: nothing."""

    def __init__(self, *, limit: float | None = 0.5, has_baseline: bool = True) -> None:
        index = ModelIndex.of(text_model(MIXED))
        quantizers = [entry for entry in index.qdq.nodes if entry.is_quantize]
        (self.stored,) = (entry for entry in index.qdq.nodes if entry.data is not None and entry.data.name == "codes")
        fmt = formats.get("int8")
        self.of_data, self.of_weight = (PairError(entry, fmt) for entry in quantizers)
        assert self.stored.data is not None
        value = index.view.main.values["w"]
        self.packed = Boundary(self.stored, self.stored.data, value, fmt, is_weight=True)
        self.packed.fit = PairError(self.stored, fmt)
        self.job = SimpleNamespace(
            index=index,
            baseline=index if has_baseline else None,
            pair_errors=dict(zip(quantizers, (self.of_data, self.of_weight), strict=True)),
            boundaries=[],
            lonely=[],
            gates=Gates(max_weight_steps=limit),
        )

    def count_weight(self, *, fits: bool = True) -> None:
        self.of_weight.elements = 3
        self.of_weight.signal, self.of_weight.noise = np.ones(1), np.full(1, 1e-6 if fits else 1.0)
        self.of_weight.low, self.of_weight.high = np.ones(1), np.full(1, 3.0)

    def count_packed(self, found: float = 1.0, codes: object = (1, 2, 3)) -> None:
        self.job.boundaries.append(self.packed)
        x = np.float32([found, 2, 3])
        self.packed.add(np.int8(codes), np.float32(1), None, x, self.job.gates.max_weight_steps)

    def gate(self) -> GateResult | None:
        return next(results(SimpleNamespace(job=self.job)), None)


def test_without_weights_there_is_no_gate() -> None:
    found = Findings()
    found.of_data.elements, found.of_data.signal, found.of_data.noise = 3, np.ones(1), np.ones(1)
    assert found.gate() is None
    found.job.lonely = [found.of_data.entry]
    assert found.gate() is None


def test_stored_codes_without_a_baseline_have_no_gate_and_float_weights_do() -> None:
    found = Findings(has_baseline=False)
    found.job.lonely = [found.stored]
    assert found.gate() is None
    found.count_weight(fits=False)
    gate = found.gate()
    assert (gate.passed, gate.detail) == (False, "1 fault in 1 weight, 1 without a counterpart SKIPPED")
    assert gate.failures[0].startswith("weight 'w', quantized at 'QuantizeLinear -> v': 0.0 dB SQNR: ")


@pytest.mark.parametrize("limit", [0.5, None])
def test_a_float_weight_that_fits_is_counted(limit: float | None) -> None:
    found = Findings(limit=limit)
    found.count_weight()
    gate = found.gate()
    assert (gate.passed, gate.detail, gate.requires) == (True, "1 weight", "every scale fits its weight")


@pytest.mark.parametrize("with_float", [True, False])
@pytest.mark.parametrize("with_packed", [True, False])
def test_codes_without_a_counterpart_fail_where_nothing_else_was_compared(with_float: bool, with_packed: bool) -> None:
    found = Findings()
    found.job.lonely = [found.stored, found.stored]
    if with_float:
        found.count_weight()
    if with_packed:
        found.count_packed()
    gate = found.gate()
    told = (
        "none of the 2 stored weights has a counterpart in the baseline: is it the float model that was quantized?",
    )
    assert gate.failures == (() if with_float or with_packed else told)
    assert gate.detail.endswith(", 2 without a counterpart SKIPPED")


def test_codes_whose_counterpart_could_not_be_read_are_without_one() -> None:
    found = Findings()
    found.job.boundaries.append(found.packed)
    gate = found.gate()
    assert (gate.passed, gate.detail) == (False, "1 fault in 0 weights, 1 without a counterpart SKIPPED")


@pytest.mark.parametrize("limit", [0.5, 3.0, None])
def test_distant_codes_fail_where_a_limit_applies(limit: float | None) -> None:
    found = Findings(limit=limit)
    found.count_packed(2.5)
    gate = found.gate()
    condition = "every scale fits its weight"
    more = f"; codes that were not clipped are within {limit:g} steps of the baseline" if limit else ""
    assert gate.requires == condition + more
    failure = (
        "weight 'w', packed at 'DequantizeLinear -> c': 1 of 3 elements are further than 0.5 steps from the baseline, "
        "the worst 1.5 steps at [0]"
    )
    assert gate.failures == ((failure,) if limit == 0.5 else ())


@pytest.mark.parametrize(
    ("found", "suggests"),
    [
        ([(2.5, 3.7, 4.8)] * 3, True),
        ([(2.5, 3.7, 4.8)] * 2, False),
        ([(2.5, 3.7, 4.8)] * 9 + [(1.0, 2.0, 3.0)], False),
        ([(2.5, 2.0, 3.0)] * 3, False),
        ([(2.5, 3.7, 3.0, 4.0)] * 3, False),
    ],
    ids=["all", "few weights", "one is intact", "few elements", "half of the elements"],
)
def test_weights_that_all_differ_were_perhaps_trained_again(found: list[tuple[float, ...]], suggests: bool) -> None:
    made = [Findings() for _ in found]
    for each, values in zip(made, found, strict=True):
        each.packed.add(np.int8(range(1, len(values) + 1)), np.float32(1), None, np.float32(values), 0.5)
    made[0].job.boundaries = [each.packed for each in made]
    failures = made[0].gate().failures
    assert [text.endswith("; trained again? --max-weight-steps inf skips this comparison") for text in failures] == [
        suggests
    ] * sum(values != (1.0, 2.0, 3.0) for values in found)


def test_a_scale_of_codes_that_does_not_fit_fails_without_a_limit() -> None:
    found = Findings(limit=None)
    found.count_packed(codes=(0, 0, 0))
    found.packed.fit.add(np.float32([1, 2, 3]), np.int8([0, 0, 0]), np.float32(1), None)
    gate = found.gate()
    assert gate.failures[0].startswith("weight 'w', packed at 'DequantizeLinear -> c': 0.0 dB SQNR: ")


@pytest.mark.parametrize("also_nearest", [True, False])
def test_codes_that_data_chose_are_told(also_nearest: bool) -> None:
    found = Findings()
    noise = 2.25 / 3
    found.packed.by_data = GptqCheck(NotedRounding(tensor="w", scope=(), type="float32", error=noise))
    found.count_packed(2.5)
    if also_nearest:
        nearest = Findings()
        nearest.count_packed()
        found.job.boundaries.append(nearest.packed)
    gate = found.gate()
    assert gate.requires.endswith(" of the baseline, or have the error that the model notes")
    assert (gate.passed, gate.detail) == (
        True,
        f"{'2 weights' if also_nearest else '1 weight'}; data chose the codes of 1",
    )
    found.packed.by_data = GptqCheck(NotedRounding(tensor="w", scope=(), type="float32", error=2 * noise))
    found.packed.by_data.float_type = "float32"
    gate = found.gate()
    assert gate.failures[0].endswith(
        "the worst 1.5 steps at [0]; its mean squared error is 0.75, and was 1.5 when data chose its codes"
    )
