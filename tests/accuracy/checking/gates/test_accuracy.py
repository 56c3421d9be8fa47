"""The gate on outputs without a limit: an output of which nothing is left fails, a bad one does not."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper
from support.evidence import evidence_of
from support.small import make_model

from qdqtool.accuracy.checking.gates.accuracy import results
from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.report import CheckReport, GateResult
from qdqtool.jobs.check import check_model
from qdqtool.models.graph.model import Model

ROWS, CLASSES = 200, 10
X = np.random.default_rng(0).normal(size=(ROWS, 8)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(8, CLASSES)).astype(np.float32)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "d.npz", x=X)
    return tmp_path / "d.npz"


def network(weights: np.ndarray, *behind: tuple[str, dict[str, object]], elem_type: int = T.FLOAT) -> Model:
    """x -> MatMul -> the operators behind -> y."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t0"])]
    for number, (op_type, attributes) in enumerate(behind):
        nodes.append(helper.make_node(op_type, [f"t{number}"], [f"t{number + 1}"], **attributes))
    nodes[-1].output[0] = "y"
    model = make_model(nodes, {"x": ("N", 8)}, {"y": ("N", None)}, {"w": weights.astype(np.float32)})
    model.graph.output[0].type.tensor_type.elem_type = elem_type
    return Model(model)


def classes(weights: np.ndarray) -> Model:
    return network(weights, ("ArgMax", {"axis": 1}), elem_type=T.INT64)


def accuracy(report: CheckReport) -> GateResult:
    return next(gate for gate in report.gates if gate.name == "accuracy")


LARGER, HALF = "the error is larger than the output itself", "the error is more than 50% of the output"


@pytest.mark.parametrize(
    ("factor", "told"),
    [
        *((factor, None) for factor in (1.0, 0.5, 1.5)),
        (0.49, f"found 5.8486 dB: {HALF}"),
        (1.9, f"found 0.91515 dB: {HALF}"),
        (2.1, f"found -0.827853 dB: {LARGER}"),
        (-1.0, f"found -6.0206 dB: {LARGER}"),
    ],
)
def test_an_error_of_more_than_half_the_output_fails(factor: float, told: str | None, data: Path) -> None:
    report = check_model(network(W * factor), baseline=network(W), data=data)
    gate = accuracy(report)
    assert gate.passed is report.passed is (told is None)
    assert gate.failures == report.failures == (() if told is None else (f"output 'y': {told}",))
    assert gate.detail == ("1 output" if told is None else "1 of 1 outputs lost")
    assert (gate.limit, gate.missed_by) == (6, () if told is None else ("y",))


@pytest.mark.parametrize(("limit", "passed"), [(0.0, True), (5.0, True), (5.9, False), (30.0, False)])
def test_a_lower_limit_of_the_user_counts_and_a_higher_one_changes_nothing(
    limit: float, passed: bool, data: Path
) -> None:
    options = CheckOptions(gates=Gates(min_sqnr=limit))
    gate = accuracy(check_model(network(W * 0.49), baseline=network(W), data=data, options=options))
    assert gate.passed is passed
    assert gate.requires.startswith(f"every output has at least {min(limit, 6):g} dB SQNR")


def test_the_verdict_names_the_worst_output_and_the_gate_that_judged_it(data: Path) -> None:
    report = check_model(network(W * 0.9), baseline=network(W), data=data)
    assert (report.worst_output.name, report.worst_output.gate) == ("y", "accuracy")
    assert report.worst_output.sqnr_db == pytest.approx(20)
    limits = CheckOptions(gates=Gates(min_sqnr=15))
    report = check_model(network(W * 0.9), baseline=network(W), data=data, options=limits)
    assert report.worst_output.gate == "min-sqnr"


def test_indices_that_agree_no_more_than_by_chance_fail(data: Path) -> None:
    other = np.random.default_rng(5).permuted(W, axis=1)
    share = np.mean(np.argmax(X @ other, 1) == np.argmax(X @ W, 1))
    assert share < 0.2
    report = check_model(classes(np.roll(W, 1, axis=1)), baseline=classes(W), data=data)
    assert not accuracy(report).passed
    assert "no more than by chance" in accuracy(report).failures[0]
    noisy = W + np.random.default_rng(6).normal(size=W.shape) * 0.1
    assert accuracy(check_model(classes(noisy), baseline=classes(W), data=data)).passed


def test_a_limit_for_floats_holds_indices_to_the_share_that_agrees(data: Path) -> None:
    noisy = W + np.random.default_rng(6).normal(size=W.shape) * 0.5
    share = float(np.mean(np.argmax(X @ noisy.astype(np.float32), 1) == np.argmax(X @ W, 1)))
    assert 0.5 < share < 0.9
    options = CheckOptions(gates=Gates(min_sqnr=30))
    report = check_model(classes(noisy), baseline=classes(W), data=data, options=options)
    assert [gate.name for gate in report.gates if not gate.passed] == ["min-agreement"]
    assert report.outputs[0].agreement == pytest.approx(share)
    options = CheckOptions(gates=Gates(min_agreement=0.5))
    assert check_model(classes(noisy), baseline=classes(W), data=data, options=options).passed


def test_a_reference_of_one_value_is_no_chance(data: Path) -> None:
    """Nearly all masks of a detector are empty: chance alone would agree."""

    def mask(offset: float) -> Model:
        nodes = [helper.make_node("Greater", ["x", "o"], ["y"])]
        model = make_model(nodes, {"x": ("N", 8)}, {"y": ("N", 8)}, {"o": np.full(1, offset, np.float32)})
        model.graph.output[0].type.tensor_type.elem_type = T.BOOL
        return Model(model)

    assert accuracy(check_model(mask(2.5), baseline=mask(100), data=data)).passed
    (failure,) = accuracy(check_model(mask(-2.5), baseline=mask(100), data=data)).failures
    share = np.mean(X <= -2.5)  # where both masks are empty
    assert failure == f"output 'y': {share:.1%} of the elements agree, although the reference has only one value"


@pytest.mark.parametrize(("offset", "passed"), [(0.9, True), (1.1, False)])
def test_an_output_whose_reference_is_zero_is_judged_by_its_error(offset: float, passed: bool, data: Path) -> None:
    def constant(value: float) -> Model:
        initializers = {"zero": np.zeros(1, np.float32), "o": np.full(1, value, np.float32)}
        nodes = [helper.make_node("Mul", ["x", "zero"], ["t"]), helper.make_node("Add", ["t", "o"], ["y"])]
        return Model(make_model(nodes, {"x": ("N", 8)}, {"y": ("N", 8)}, initializers))

    report = check_model(constant(offset), baseline=constant(0), data=data)
    assert accuracy(report).passed is passed
    told = (f"output 'y': the reference is 0 everywhere, and the error {offset:g} exceeds 1",)
    assert accuracy(report).failures == (() if passed else told)
    assert report.outputs[0].zero_reference


def test_scores_near_zero_may_have_an_error_of_one_step_of_8_bits(data: Path) -> None:
    def scores(offset: float) -> Model:
        nodes = [helper.make_node("Sub", ["x", "o"], ["t"]), helper.make_node("Sigmoid", ["t"], ["y"])]
        return Model(make_model(nodes, {"x": ("N", 8)}, {"y": ("N", 8)}, {"o": np.full(1, offset, np.float32)}))

    near = check_model(scores(12), baseline=scores(15), data=data)
    assert near.outputs[0].sqnr_db is not None
    assert near.outputs[0].sqnr_db < -20
    assert accuracy(near).passed
    (failure,) = accuracy(check_model(scores(2), baseline=scores(15), data=data)).failures
    assert failure.endswith("dB: the error is larger than the output itself")


def biased(weights: np.ndarray, offset: float) -> Model:
    """x -> MatMul -> Add -> y."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Add", ["t", "o"], ["y"])]
    constants = {"w": weights.astype(np.float32), "o": np.full(1, offset, np.float32)}
    return Model(make_model(nodes, {"x": ("N", 8)}, {"y": ("N", CLASSES)}, constants))


@pytest.mark.parametrize("offset", [0, 3, 30])
def test_an_output_that_is_the_same_in_all_samples_is_lost(offset: float, data: Path) -> None:
    """A large bias hides it: the SQNR is 0.0, 4 and 22 dB."""
    report = check_model(biased(0 * W, offset), baseline=biased(W, offset), data=data)
    assert report.outputs[0].sqnr_db is not None
    assert report.outputs[0].sqnr_db >= 0
    assert [gate.name for gate in report.gates if not gate.passed] == ["accuracy"]
    reason = "it is the same in all 200 samples, and the reference is not" if offset else "it is 0 everywhere"
    assert reason in accuracy(report).failures[0]
    noisy = W + np.random.default_rng(6).normal(size=W.shape) * 0.1
    assert check_model(biased(noisy, offset), baseline=biased(W, offset), data=data).passed


def test_equal_probabilities_for_all_classes_are_lost(data: Path) -> None:
    flat, sharp = (network(factor * W, ("Softmax", {})) for factor in (1e-3, 8))
    report = check_model(flat, baseline=sharp, data=data)
    assert report.outputs[0].sqnr_db == pytest.approx(0.7, abs=0.3)
    assert "a constant output could have a smaller error" in accuracy(report).failures[0]


def test_an_output_may_be_constant_where_its_reference_hardly_varies(data: Path) -> None:
    assert check_model(biased(0 * W, 1000), baseline=biased(W, 1000), data=data).passed
    assert check_model(biased(0 * W, 0), baseline=biased(1e-8 * W, 0), data=data).passed


def test_one_sample_shows_an_output_of_zeros_and_no_constant(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", x=X[:1])
    zeros = check_model(biased(0 * W, 0), baseline=biased(W, 0), data=tmp_path / "one.npz")
    assert "it is 0 everywhere" in accuracy(zeros).failures[0]
    assert check_model(biased(0 * W, 30), baseline=biased(W, 30), data=tmp_path / "one.npz").passed


def test_a_reference_of_nan_proves_nothing(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=-np.abs(X))

    def root(hidden: bool) -> Model:
        """y = sqrt(x), which is NaN; hidden: 0 in its place, as a Q would make it."""
        nodes = [helper.make_node("Sqrt", ["x"], ["r"]), helper.make_node("IsNaN", ["r"], ["n"])]
        nodes.append(helper.make_node("Where", ["n", "o" if hidden else "r", "r"], ["y"]))
        return Model(make_model(nodes, {"x": ("N", 8)}, {"y": ("N", 8)}, {"o": np.zeros(1, np.float32)}))

    for hidden in (True, False):
        report = check_model(root(hidden), baseline=root(False), data=tmp_path / "d.npz")
        assert accuracy(report).failures == (
            "output 'y': its reference is NaN or infinite everywhere, so that nothing was compared",
        )


def boxes(scale: np.ndarray) -> tuple[Model, Model]:
    """Boxes in pixels and scores from 0 to 1 in one output: with a pair behind it, and in float."""
    factors = {"f": np.float32([300, 300, 300, 300, 1, 1])}
    multiply = helper.make_node("Mul", ["x", "f"], ["t"])
    pair = {"s": scale.astype(np.float32), "z": np.zeros(scale.shape, np.int8)}
    nodes = [
        helper.make_node("QuantizeLinear", ["t", "s", "z"], ["q"], axis=2),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=2),
    ]
    shape = {"y": (1, 20, 6)}
    quantized = make_model([multiply, *nodes], {"x": (1, 20, 6)}, shape, {**factors, **pair})
    multiply = helper.make_node("Mul", ["x", "f"], ["y"])
    return Model(quantized), Model(make_model([multiply], {"x": (1, 20, 6)}, shape, factors))


ASKED = Gates(min_sqnr=30, min_cosine=0.999, max_steps=1)


@pytest.mark.parametrize("gates", [Gates(), ASKED])
def test_scores_that_share_a_scale_with_boxes_in_pixels_are_lost(gates: Gates, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(2).random((4, 20, 6)).astype(np.float32))
    quantized, baseline = boxes(np.array(300 / 127))
    options = CheckOptions(gates=gates)
    report = check_model(quantized, baseline=baseline, data=tmp_path / "d.npz", options=options)
    assert report.outputs[0].sqnr_db > 45
    assert [gate.name for gate in report.gates if not gate.passed] == ["accuracy"]
    limit = 10 if gates.min_sqnr else 0
    assert report.failures == (
        "output 'y': 2 of 6 parts along axis 2 are lost; the part from index 4 on is the same in all samples",
    )
    assert f", its parts more than {limit} dB, " in accuracy(report).requires
    quantized, baseline = boxes(np.array([300, 300, 300, 300, 1, 1]) / 127)
    assert check_model(quantized, baseline=baseline, data=tmp_path / "d.npz", options=options).passed


def test_one_class_of_ten_that_is_constant_is_lost(data: Path) -> None:
    without = W.copy()
    without[:, 3] = 0
    options = CheckOptions(gates=Gates(min_cosine=0.9))
    report = check_model(biased(without, 0.5), baseline=biased(W, 0.5), data=data, options=options)
    assert report.failures == (
        "output 'y': 1 of 10 parts along axis 1 are lost; the part from index 3 on is the same in all samples",
    )
    noisy = W + np.random.default_rng(6).normal(size=W.shape) * 0.1
    assert check_model(biased(noisy, 0.5), baseline=biased(W, 0.5), data=data, options=options).passed


@pytest.mark.parametrize(("dead", "lost"), [(5, False), (6, True)])
def test_a_quarter_of_many_channels_may_be_lost(dead: int, lost: bool) -> None:
    expected = np.random.default_rng(3).normal(size=(20, 1, 21))
    expected[..., :dead] *= 1e-3
    gate = judged("Neg", *((np.round(each, 1), each) for each in expected))
    assert gate.passed is not lost


@pytest.mark.parametrize(("size", "lost"), [(1.0, True), (0.2, True), (0.1, False)])
@pytest.mark.parametrize("moves", [0.0, 1e-3])
def test_one_dead_channel_of_many_is_lost_unless_its_reference_is_small(size: float, lost: bool, moves: float) -> None:
    expected = np.random.default_rng(3).normal(size=(20, 1, 64))
    expected[..., 5] *= size
    found = expected.copy()
    found[..., 5] = moves * expected[..., 5] + 0.01
    gate = judged("Neg", *zip(found, expected, strict=True))
    lines = "1 of 64 parts along axis 1 are lost; the part from index 5 on is the same in all samples"
    assert gate.failures == ((f"output 'y': {lines}",) if lost and not moves else ())


@pytest.mark.parametrize(("off", "lost"), [(1.0, True), (0.99, False)])
def test_a_channel_with_an_error_as_large_as_itself_is_lost(off: float, lost: bool) -> None:
    expected = np.random.default_rng(3).normal(size=(20, 1, 5)) * [100, 100, 100, 1, 1]
    gate = judged("Neg", *((each * [1, 1, 1, 1, 1 + off], each) for each in expected))
    lines = "1 of 5 parts along axis 1 are lost; the part from index 4 on has 0 dB, and must have more than 0 dB"
    assert gate.failures == ((f"output 'y': {lines}",) if lost else ())


@pytest.mark.parametrize(("samples", "lost"), [(15, False), (16, True)])
def test_a_channel_is_judged_from_16_values_on(samples: int, lost: bool) -> None:
    """With 15 values, both channels are judged together."""
    gate = judged("Neg", *(([[100.0, 0.0]], [[100.0 + number / 8, 1.0]]) for number in range(samples)))
    assert gate.passed is not lost


@pytest.mark.parametrize(("extent", "lost"), [(31, False), (32, True), (33, True), (47, True)])
def test_one_sample_is_judged_by_16_neighbors(extent: int, lost: bool) -> None:
    expected = np.where(np.arange(extent) < 16, 100.0, 1.0)
    gate = judged("Neg", (np.where(expected > 1, expected, 0), expected))
    lines = "1 of 2 parts along axis 0 are lost; the part from index 16 on has 0 dB, and must have more than 0 dB"
    assert gate.failures == ((f"output 'y': {lines}",) if lost else ())


@pytest.mark.parametrize(("op_type", "passed"), [("Sigmoid", True), ("Exp", False)])
def test_scores_of_a_class_that_never_occurs_may_round_to_0(op_type: str, passed: bool) -> None:
    samples = [([[number / 16, 0.0]], [[number / 16, 2.0**-8]]) for number in range(1, 16)]
    assert judged(op_type, *samples, *samples).passed is passed


@pytest.mark.parametrize(("quiet", "lost"), [(16, False), (17, True), (63, True)])
def test_samples_that_give_0_are_not_made_up_for_by_loud_ones(quiet: int, lost: bool) -> None:
    wave = np.sin(np.arange(40))
    samples = [(0 * wave, wave)] * quiet + [(1e3 * wave, 1e3 * wave + 0.1)] * (64 - quiet)
    gate = judged("Neg", *samples)
    assert gate.passed is not lost
    told = "output 'y': a quarter of the samples has at most 0 dB, and must have more than 0 dB"
    assert gate.failures == ((told,) if lost else ())


def test_what_parts_must_keep_is_20_db_less_than_is_asked() -> None:
    wave = np.sin(np.arange(40))
    samples = [(1.2 * wave, wave)] * 20 + [(1e3 * wave, 1e3 * wave + 0.1)] * 20
    for asked, told in ((33, ()), (35, ("a quarter of the samples has at most 14 dB, and must have more than 15 dB",))):
        gate = judged("Neg", *samples, gates=Gates(min_sqnr=asked))
        assert gate.failures == tuple(f"output 'y': {line}" for line in told)


@pytest.mark.parametrize(("quiet", "off"), [(1.2, 0.4), (1.95, 0.7)])
def test_what_parts_must_keep_is_20_db_less_than_the_whole_output_keeps(quiet: float, off: float) -> None:
    """Of 24.5 dB, 14 dB are enough; of 17.3 dB, 0.4 dB are. The gate min-sqnr judges the whole output."""
    wave = np.sin(np.arange(40))
    samples = [(quiet * wave, wave)] * 20 + [(10 * wave + off, 10 * wave)] * 20
    assert judged("Neg", *samples, gates=Gates(min_sqnr=35)).passed


def test_a_quarter_of_the_scores_may_not_be_lost() -> None:
    scores = np.linspace(0.1, 0.9, 40)
    samples = [(0 * scores, 0.2 * scores)] * 17 + [(scores, scores + 1e-4)] * 47
    told = "output 'y': a quarter of the samples has at most 0 dB, and must have more than 0 dB"
    assert judged("Sigmoid", *samples).failures == (told,)


def judged(
    op_type: str, *samples: tuple[object, object], elem_type: int = T.FLOAT, is_random: bool = False, **more: Gates
):
    """The gate on samples of ``(found, expected)`` at the output of one operator."""
    nodes = [helper.make_node(op_type, ["x"], ["y"], **({"to": elem_type} if op_type == "Cast" else {}))]
    model = make_model(nodes, {"x": (None,)}, {"y": (None,)}, {})
    model.graph.output[0].type.tensor_type.elem_type = elem_type
    kind = helper.tensor_dtype_to_np_dtype(elem_type)
    pairs = [({"y": np.array(found, kind)}, {"y": np.array(expected, kind)}) for found, expected in samples]
    (gate,) = results(evidence_of(model, pairs, is_random=is_random, **more))
    return gate


@pytest.mark.parametrize(("off", "passed"), [(2.0**-8, True), (2.0**-8 + 2.0**-20, False)])
def test_a_score_may_be_off_by_exactly_one_step_of_8_bits(off: float, passed: bool) -> None:
    tiny = 2.0**-20
    assert judged("Sigmoid", ([tiny + off], [tiny])).passed is passed
    assert not judged("Exp", ([tiny + off], [tiny])).passed


@pytest.mark.parametrize(("size", "fault"), [(2.0**-20, ()), (2.0**-19, "it is 0 everywhere")])
def test_zeros_in_place_of_values_as_small_as_roundings_pass(size: float, fault: str | tuple[()]) -> None:
    gate = judged("Neg", ([0.0], [size]), ([0.0], [-size]))
    assert gate.failures == (fault and (f"output 'y': {fault}, and the reference is up to {size:.3g}",))


@pytest.mark.parametrize(("part", "lost"), [(31, False), (30, True)])
def test_a_constant_output_is_lost_where_the_reference_varies_by_more_than_30_db(part: int, lost: bool) -> None:
    """31² + 6² + 1² + 1² + 1² is 1000 times the power of what varies: 30 dB."""
    constant = np.float32([part, 6, 1, 1])
    change = np.float32([1, 0, 0, 0])
    gate = judged("Neg", (constant, constant + change), (constant, constant - change))
    told = "output 'y': it is the same in all 2 samples, and the reference is not"
    assert gate.failures == ((told,) if lost else ())


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ([1, -1], "found 0 dB: a constant output could have a smaller error"),
        ([0, -1], None),
        ([0, 0], "found 3.0103 dB: the error is more than 50% of the output"),
    ],
)
def test_an_output_is_lost_where_a_constant_has_no_larger_error(wrong: list[float], told: str | None) -> None:
    """The mean of both samples is 0, and has a squared error of 4 as ``[1, -1]`` has; the others have 1 and 2."""
    gate = judged("Neg", ([1, 1], [1, 1]), (wrong, [-1, -1]))
    assert gate.failures == (() if told is None else (f"output 'y': {told}",))


@pytest.mark.parametrize(("found", "share"), [([0, 0, 1, 1], "50.0%"), ([0, 0, 0, 0], "50.0%")])
def test_a_share_that_chance_gives_exactly_is_no_more_than_chance(found: list[int], share: str) -> None:
    gate = judged("Cast", (found, [0, 1, 0, 1]), elem_type=T.INT64)
    assert gate.failures == (f"output 'y': {share} of the elements agree, no more than by chance (50.0%)",)


@pytest.mark.parametrize(("found", "passed"), [([7, 7, 1, 2], True), ([7, 3, 1, 2], False), ([7, 7, 7, 7], True)])
def test_half_of_a_reference_with_one_value_must_agree(found: list[int], passed: bool) -> None:
    assert judged("Cast", (found, [7, 7, 7, 7]), elem_type=T.INT64).passed is passed


def test_outputs_of_other_shapes_show_nothing_and_fail() -> None:
    for is_random in (True, False):
        gate = judged("Neg", ([1.0], [1.0, 2.0]), is_random=is_random)
        assert gate.failures == ("no output could be compared",)
        assert gate.detail == "0 outputs, 1 SKIPPED"


def test_a_model_without_outputs_has_none_to_lose() -> None:
    (gate,) = results(evidence_of(make_model([], {"x": (1,)}, {}, {}), [({}, {})]))
    assert (gate.passed, gate.detail) == (True, "0 outputs")


def test_only_nan_that_differ_are_for_another_gate() -> None:
    assert judged("Neg", ([1.0, np.nan], [1.0, 2.0])).passed
    assert not judged("Neg", ([np.nan, 1.0], [np.nan, -1.0])).passed


@pytest.mark.parametrize(
    ("elem_type", "values"), [(T.INT64, [3, 3, 3]), (T.INT64, [1, 2, 3]), (T.FLOAT, [0, 0]), (T.FLOAT, [1, 2])]
)
def test_equal_outputs_pass_whatever_they_are(elem_type: int, values: list[int]) -> None:
    assert judged("Cast", (values, values), elem_type=elem_type).passed


def test_an_output_without_elements_is_neither_lost_nor_nan() -> None:
    assert judged("Neg", ([], [])).failures == ("no output could be compared",)


def test_without_a_baseline_there_is_no_gate() -> None:
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (1,)}, {"y": (1,)}, {})
    assert list(results(evidence_of(model, [({"y": np.zeros(1, np.float32)}, None)]))) == []


def test_with_random_inputs_every_fault_is_a_warning() -> None:
    gate = judged("Neg", ([0.0], [5.0]), is_random=True)
    assert (gate.passed, gate.detail) == (True, "1 of 1 outputs lost")
    assert gate.warnings == ("output 'y': it is 0 everywhere, and the reference is up to 5; the inputs were random",)
    assert judged("Neg", ([0.0], [5.0])).warnings == ()


@pytest.mark.parametrize(("db", "lost"), [(6.0, False), (math.nextafter(6.0, 0), True)])
def test_an_output_from_6_db_on_is_not_held_against_a_constant(db: float, lost: bool) -> None:
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (None,)}, {"y": (None,)}, {})
    samples = [(np.float32([1, 1]), np.float32([1, 1])), (np.float32([1, -1]), np.float32([-1, -1]))]
    evidence = evidence_of(model, [({"y": found}, {"y": expected}) for found, expected in samples])
    (gate,) = results(replace(evidence, outputs=(replace(evidence.outputs[0], sqnr_db=db),)))
    assert gate.passed is not lost
