"""How far outputs move by a change: exact, in numbers, in steps of their scale, and against the model without Q/DQ."""

import numpy as np
import onnx
import onnx.parser
import pytest

from qdqtool.linting.repair.output_changes import output_changes
from qdqtool.linting.repair.proof import Prover, Run
from qdqtool.linting.repair.report import OutputChange
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

HEADER = '<ir_version: 10, opset_import: ["": 21]>'


def quantized(scale: float = 0.1, axis: str = "", constants: str = "") -> Model:
    constants = constants or f"float s = {{{scale}}}, int8 z = {{0}}"
    return Model(
        onnx.parser.parse_model(
            f"{HEADER} g (float[2,3] x) => (float[2,3] y, float[2,3] r, bool[2,3] n)"
            f" <{constants}> {{"
            f" q = QuantizeLinear {axis} (x, s, z) y = DequantizeLinear {axis} (q, s, z)"
            " r = Relu (y) n = IsNaN (y) }"
        )
    )


def changes(before: Model, after: Model, data: DataRequest | None = None) -> dict[str, OutputChange]:
    prover = Prover(before, data or DataRequest(samples=3))
    found = output_changes(before, prover.run(before), prover.run(after), prover)
    return {change.name: change for change in found}


@pytest.fixture
def data(tmp_path) -> DataRequest:
    samples = np.float32([[[0.12, 0.29, -1], [1, 2, 3]], [[0.1, 0.2, 0.3], [4, 5, 6.17]]])
    np.savez(tmp_path / "d.npz", x=samples)
    return DataRequest(path=tmp_path / "d.npz")


F = np.float32


def db(signal: np.ndarray, noise: np.ndarray) -> float:
    return float(10 * np.log10(np.sum(signal.astype(np.float64) ** 2) / np.sum(noise.astype(np.float64) ** 2)))


def test_equal_models_move_nothing(data: DataRequest):
    found = changes(quantized(), quantized(), data)

    assert list(found) == ["y", "r", "n"]
    assert all((each.exact, each.equal, each.max_abs, each.sqnr_db) == (True, True, 0, None) for each in found.values())
    assert [each.max_steps for each in found.values()] == [0, None, None]


def test_the_move_is_measured_over_all_samples(data: DataRequest):
    found = changes(quantized(), quantized(0.2), data)
    x = np.load(str(data.path))["x"]
    one = np.rint(x / np.float32(0.1)) * np.float32(0.1)
    other = np.rint(x / np.float32(0.2)) * np.float32(0.2)

    y = found["y"]
    assert (y.exact, y.equal) == (False, False)
    assert y.max_abs == pytest.approx(np.abs(one - other).max())
    assert y.max_steps == pytest.approx(np.abs(one - other).max() / 0.1)
    assert y.sqnr_db == pytest.approx(db(one, one - other))
    assert y.before_db == pytest.approx(db(x, x - one))
    assert y.after_db == pytest.approx(db(x, x - other))
    r = found["r"]
    assert r.max_steps is None
    assert r.before_db == pytest.approx(db(np.maximum(x, 0), np.maximum(x, 0) - np.maximum(one, 0)))
    assert (found["n"].exact, found["n"].equal, found["n"].max_abs) == (True, True, 0)


def test_zeros_of_either_sign_are_equal_and_not_exact():
    text = f"{HEADER} g (float[2] x) => (float[2] y) {{ y = %s (x) }}"
    run = [Run(({"y": np.float32([sign * 0.0, 1])}, {"y": np.float32([2, 3])})) for sign in (1, -1)]
    model = Model(onnx.parser.parse_model(text % "Relu"))
    (found,) = output_changes(model, run[0], run[1], Prover(model, DataRequest()))

    assert (found.exact, found.equal, found.max_abs, found.max_steps) == (False, True, 0, None)


def test_one_sample_that_differs_is_enough():
    model = Model(onnx.parser.parse_model(f"{HEADER} g (float[1] x) => (float[1] y) {{ y = Relu (x) }}"))
    runs = [Run(tuple({"y": np.float32([value])} for value in values)) for values in ((1, 2, 3), (1, 2.5, 3))]
    (found,) = output_changes(model, *runs, Prover(model, DataRequest()))

    assert (found.exact, found.equal, found.max_abs) == (False, False, 0.5)


@pytest.mark.parametrize("failing", [0, 1])
def test_nothing_is_told_of_models_that_do_not_run(failing: int):
    model = quantized()
    prover = Prover(model, DataRequest(samples=2))
    runs = [prover.run(model), prover.run(model)]
    runs[failing] = Run(failure="no")

    assert output_changes(model, runs[0], runs[1], prover) == ()


def test_the_noise_is_unknown_where_the_model_without_pairs_does_not_run():
    model = quantized()
    samples = Prover(model, DataRequest(samples=2)).run(model)
    other = Prover(Model(onnx.parser.parse_model(f"{HEADER} g (float[5] u) => (v) {{ v = Relu (u) }}")), DataRequest())

    (y, *_) = output_changes(model, samples, samples, other)
    assert (y.before_db, y.after_db, y.exact) == (None, None, True)


def test_the_largest_move_is_that_of_any_sample(data: DataRequest):
    x = np.load(str(data.path))["x"]
    np.savez(str(data.path), x=x[::-1])
    turned, straight = changes(quantized(), quantized(0.2), data), changes(quantized(), quantized(0.2), DataRequest())

    assert turned["y"].max_steps == pytest.approx(turned["y"].max_abs / 0.1)
    assert straight["y"].max_steps == pytest.approx(straight["y"].max_abs / 0.1)


def test_one_sample_is_enough(data: DataRequest):
    found = changes(quantized(), quantized(0.2), DataRequest(path=data.path, samples=1))

    assert list(found) == ["y", "r", "n"]
    assert found["y"].max_abs == pytest.approx(0.1)


COMPRESS = (
    f"{HEADER} g (float[4] x) => (float[k] y) <float s = {{%s}}, float u = {{0.25}}, int8 z = {{0}}, float h = {{0.5}}>"
    " { q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) c = Greater (d, h) p = Compress (d, c)"
    " r = QuantizeLinear (p, u, z) y = DequantizeLinear (r, u, z) }"
)
"""Gives the elements above 0.5."""


def test_samples_whose_shape_changes_are_counted_and_left_out(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.float32([[1.1, 1.1, 1.1, 0], [2, 2, 2, 0]]))
    before, after = (Model(onnx.parser.parse_model(COMPRESS % scale)) for scale in (0.25, 3))

    (y,) = changes(before, after, DataRequest(path=tmp_path / "d.npz")).values()
    assert (y.exact, y.equal, y.other_shapes, y.max_abs, y.max_steps) == (False, False, 1, 1, 4)
    assert (y.sqnr_db, y.before_db, y.after_db) == (pytest.approx(db(F([2]), F([1]))), None, y.sqnr_db)


def test_samples_in_which_the_model_without_pairs_has_another_shape_tell_no_noise(tmp_path):
    np.savez(tmp_path / "d.npz", x=F([[0.4, 1.4, 1.1, 0], [2.3, 2, 2, 0]]))
    before, after = (Model(onnx.parser.parse_model(COMPRESS % scale)) for scale in (0.6, 0.7))

    (y,) = changes(before, after, DataRequest(path=tmp_path / "d.npz")).values()
    float_ones = F([2.3, 2, 2])  # of the second sample; of the first one, 0.4 becomes more than 0.5 in both
    assert y.other_shapes == 0
    assert y.before_db == pytest.approx(db(float_ones, F([0.2, 0.25, 0.25])), rel=1e-5)
    assert y.after_db == pytest.approx(db(float_ones, F([0.3, 0, 0])), rel=1e-5)


def test_outputs_of_text_have_no_numbers():
    model = Model(
        onnx.parser.parse_model(
            f"{HEADER} g (float[2] x) => (string[2] t, float[2] y) {{ t = Cast <to = 8> (x) y = Relu (x) }}"
        )
    )

    assert list(changes(model, model)) == ["y"]


def test_steps_are_those_of_one_scale():
    rows = quantized(axis="<axis = 0>", constants="float[2] s = {0.1, 0.2}, int8[2] z = {0, 0}")
    one = quantized(axis="<axis = 0>", constants="float[1] s = {0.1}, int8[1] z = {0}")

    assert changes(rows, rows)["y"].max_steps is None
    computed = quantized(constants="float s0 = {0.1}, int8 z = {0}")
    computed.proto.graph.node.insert(0, onnx.helper.make_node("ReduceMax", ["x"], ["s"], keepdims=0))
    assert changes(computed, computed)["y"].max_steps is None
    assert changes(one, one)["y"].max_steps == 0
