"""Outputs saved and read again: the layout, the comparison with the reference, and files that do not fit."""

import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from support.metrics import cosine, sqnr_db
from support.qdq import pair_model
from support.small import make_model, matmul_model, run

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.output_file import OutputWriter
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.errors import OutputError, UsageError
from qdqtool.jobs.check import check_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

ROWS = 5


def matmul(batch: int | str = "N") -> Model:
    proto = matmul_model()
    for value in (proto.graph.input[0], proto.graph.output[0]):
        dim = value.type.tensor_type.shape.dim[0]
        dim.CopyFrom(type(dim)(dim_value=batch) if isinstance(batch, int) else type(dim)(dim_param=batch))
    return Model(proto)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(1).normal(size=(ROWS, 8)).astype(np.float32))
    return tmp_path / "d.npz"


@pytest.fixture
def expected(data: Path) -> np.ndarray:
    """What ONNX Runtime gives for all rows, one at a time."""
    with np.load(data) as stored:
        return np.concatenate([run(matmul_model(), {"x": row[None]})[0] for row in stored["x"]])


def saved(folder: Path, **arrays: np.ndarray) -> CheckOptions:
    np.savez(folder / "o.npz", **arrays)
    return CheckOptions(outputs=folder / "o.npz")


def gates(report: CheckReport) -> dict[str, bool]:
    return {gate.name: gate.passed for gate in report.gates}


def test_saved_outputs_lie_one_below_the_other_under_their_names(data, expected, tmp_path) -> None:
    report = check_model(matmul(), data=data, options=CheckOptions(save_outputs=tmp_path / "o.npz"))
    assert report.written == str(tmp_path / "o.npz")
    with np.load(tmp_path / "o.npz", allow_pickle=False) as stored:
        assert stored.files == ["y"]
        assert stored["y"].dtype == np.float32
        assert np.array_equal(stored["y"], expected)


@pytest.mark.parametrize("batch", ["N", 1, 2, 5, 8])
def test_what_was_saved_is_exact_when_it_is_read_again(batch, data, tmp_path) -> None:
    check_model(matmul(batch), data=data, options=CheckOptions(save_outputs=tmp_path / "o.npz"))
    with np.load(tmp_path / "o.npz") as stored:
        assert stored["y"].shape == (ROWS, 6)
    options = CheckOptions(outputs=tmp_path / "o.npz", gates=Gates(min_sqnr=300, min_cosine=1))
    report = check_model(matmul(batch), data=data, options=options)
    assert report.passed
    assert [(output.name, output.exact) for output in report.saved_outputs.outputs] == [("y", True)]


def test_the_same_outputs_are_the_same_bytes(data, tmp_path) -> None:
    for name in ("a.npz", "b.npz"):
        check_model(matmul(), data=data, options=CheckOptions(save_outputs=tmp_path / name))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_distance_is_that_of_the_whole_arrays(order, data, expected, tmp_path) -> None:
    other = (expected + np.random.default_rng(2).normal(size=expected.shape) * 0.01).astype(np.float32)
    report = check_model(matmul(), data=data, options=saved(tmp_path, y=np.asarray(other, order=order)))
    (found,) = report.saved_outputs.outputs
    assert not found.exact
    assert found.sqnr_db == pytest.approx(sqnr_db(expected, other), rel=1e-9)
    assert found.cosine == pytest.approx(cosine(expected, other), rel=1e-12)
    assert found.max_abs == pytest.approx(float(np.abs(expected.astype(np.float64) - other).max()), rel=1e-12)


def test_without_a_limit_a_distance_passes_and_the_report_says_so(data, expected, tmp_path) -> None:
    report = check_model(matmul(), data=data, options=saved(tmp_path, y=0.5 * expected))
    assert report.passed
    assert gates(report)["outputs-finite"]
    assert any("no limit was given for the saved outputs" in warning for warning in report.warnings)


def test_saved_outputs_with_an_error_as_large_as_themselves_fail_without_a_limit(data, expected, tmp_path) -> None:
    report = check_model(matmul(), data=data, options=saved(tmp_path, y=-expected))
    assert not gates(report)["outputs-accuracy"]
    (failure,) = report.failures
    assert failure.startswith("saved output 'y': found -6.0206 dB")


@pytest.mark.parametrize(("noise", "passed"), [(1e-4, True), (0.5, False)])
def test_limits_bound_the_saved_outputs(noise, passed, data, expected, tmp_path) -> None:
    options = replace(saved(tmp_path, y=(expected * (1 + noise)).astype(np.float32)), gates=Gates(min_sqnr=40))
    report = check_model(matmul(), data=data, options=options)
    assert gates(report)["outputs-min-sqnr"] is report.passed is passed
    assert "min-sqnr" not in gates(report)
    assert report.warnings == tuple(text for text in report.warnings if "no limit" not in text)
    if not passed:
        assert report.failures[0].startswith("saved output 'y': outputs-min-sqnr is 40 dB, found 6.0")


def test_a_baseline_and_saved_outputs_are_compared_side_by_side(data, expected, tmp_path) -> None:
    options = replace(saved(tmp_path, y=expected * np.float32(1.5)), gates=Gates(min_sqnr=40))
    report = check_model(matmul(), baseline=matmul(), data=data, options=options)
    assert (gates(report)["min-sqnr"], gates(report)["outputs-min-sqnr"]) == (True, False)
    assert report.outputs[0].exact


def test_steps_are_counted_where_a_dq_makes_the_output(tmp_path) -> None:
    model = pair_model(TensorProto.INT8, scale=0.1)
    x = np.linspace(-1, 1, 6, dtype=np.float32)
    np.savez(tmp_path / "d.npz", x=x[:, None])
    request = DataRequest(path=tmp_path / "d.npz", input_shapes={"x": (1,)})
    check_model(model, data=request, options=CheckOptions(save_outputs=tmp_path / "o.npz"))
    with np.load(tmp_path / "o.npz") as stored:
        y = stored["y"]
    options = replace(saved(tmp_path, y=(y + 0.3).astype(np.float32)), gates=Gates(max_steps=2.5))
    report = check_model(model, data=request, options=options)
    assert report.saved_outputs.outputs[0].max_steps == pytest.approx(3, rel=1e-5)
    assert not gates(report)["outputs-max-steps"]


def test_the_metric_of_saved_outputs_is_taken_too(tmp_path) -> None:
    scores = np.eye(4, dtype=np.float32)
    np.savez(tmp_path / "d.npz", x=scores, labels=np.arange(4))
    node = helper.make_node("Identity", ["x"], ["y"])
    model = Model(make_model([node], {"x": ("n", 4)}, {"y": ("n", 4)}, {}))
    worse = scores.copy()
    worse[0] = [0, 1, 0, 0]
    options = replace(saved(tmp_path, y=worse), metric="top-1", gates=Gates(max_metric_loss=20))
    report = check_model(model, data=tmp_path / "d.npz", options=options)
    assert (report.metric.value, report.metric.saved, report.metric.saved_loss) == (100, 75, 25)
    assert not gates(report)["outputs-max-metric-loss"]
    assert "max-metric-loss" not in gates(report)


def test_an_output_without_axes_has_one_row_for_each_run(tmp_path) -> None:
    np.savez(tmp_path / "d.npz", x=np.arange(6, dtype=np.float32).reshape(3, 2))
    node = helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)
    model = Model(make_model([node], {"x": ("n", 2)}, {"y": ()}, {}))
    check_model(model, data=tmp_path / "d.npz", options=CheckOptions(save_outputs=tmp_path / "o.npz"))
    with np.load(tmp_path / "o.npz") as stored:
        assert stored["y"].tolist() == [1, 5, 9]
    report = check_model(model, data=tmp_path / "d.npz", options=CheckOptions(outputs=tmp_path / "o.npz"))
    assert report.saved_outputs.outputs[0].exact


Y = np.zeros((ROWS, 6), np.float32)
MISFITS = {
    "another name": ({"z": Y}, "'z' is no output of the model; its outputs: y"),
    "a name too many": ({"y": Y, "x": Y}, "'x' is no output"),
    "nothing": ({}, "output 'y' is missing"),
    "another type": ({"y": Y.astype(np.float16)}, "has type float16; the reference gives float32"),
    "another width": ({"y": Y[:, :4]}, r"has rows of shape \[4\]; the reference gives \[6\]"),
    "another rank": ({"y": Y[..., None]}, r"has rows of shape \[6, 1\]"),
    "a row too few": ({"y": Y[1:]}, "has 4 rows; the reference gives more"),
    "a row too many": ({"y": np.concatenate([Y, Y[:1]])}, "has 6 rows; the reference gives 5"),
    "a scalar": ({"y": np.float32(0)}, "is a scalar"),
    "pickled": ({"y": np.array([None] * ROWS)}, "pickled Python objects"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_file_that_does_not_fit_is_a_usage_error(case, data, tmp_path) -> None:
    arrays, message = MISFITS[case]
    with pytest.raises(UsageError, match=message):
        check_model(matmul(), data=data, options=saved(tmp_path, **arrays))


def test_a_file_that_cannot_be_read_is_a_usage_error(data, tmp_path) -> None:
    (tmp_path / "o.npz").write_bytes(b"PK\x03\x04 and no more")
    for path, message in ((tmp_path / "o.npz", "not a readable"), (tmp_path / "absent.npz", "cannot be read")):
        with pytest.raises(UsageError, match=message):
            check_model(matmul(), data=data, options=CheckOptions(outputs=path))


def test_a_damaged_member_is_a_usage_error(data, tmp_path) -> None:
    saved(tmp_path, y=Y)
    content = bytearray((tmp_path / "o.npz").read_bytes())
    content[content.index(b"\x93NUMPY") + 128 + 16] ^= 0xFF
    (tmp_path / "o.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r"not a readable \.npz file: Bad CRC"):
        check_model(matmul(), data=data, options=CheckOptions(outputs=tmp_path / "o.npz"))


def test_saved_outputs_need_their_data(tmp_path) -> None:
    with pytest.raises(UsageError, match="needs the data") as caught:
        check_model(matmul(), options=saved(tmp_path, y=Y))
    assert caught.value.hint == "give `--data DATA`"


def test_outputs_that_change_their_shape_make_no_array_and_leave_no_file(tmp_path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for length in (3, 4):
        np.savez(folder / f"{length}.npz", x=np.arange(length, dtype=np.float32)[None])
    node = helper.make_node("Identity", ["x"], ["y"])
    model = Model(make_model([node], {"x": ("n", "length")}, {"y": ("n", "length")}, {}))
    with pytest.raises(UsageError, match=r"rows of \[3\], then of \[4\]"):
        check_model(model, data=folder, options=CheckOptions(save_outputs=tmp_path / "o.npz"))
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_data_and_compared_outputs_are_never_overwritten(data, tmp_path) -> None:
    for path, options in (
        (data, CheckOptions(save_outputs=data)),
        (tmp_path / "o.npz", replace(saved(tmp_path, y=Y), save_outputs=tmp_path / "o.npz")),
    ):
        before = path.read_bytes()
        with pytest.raises(UsageError, match="is also an input"):
            check_model(matmul(), data=data, options=options)
        assert path.read_bytes() == before
    with pytest.raises(OutputError, match="does not exist"):
        check_model(matmul(), data=data, options=CheckOptions(save_outputs=tmp_path / "no" / "o.npz"))


def test_a_full_disk_leaves_no_part_of_the_file(tmp_path) -> None:
    rows = np.zeros((1, 16_000), np.float32)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with OutputWriter(tmp_path / "o.npz") as writer:
        for name in ("y", "z"):
            writer.add(name, rows)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most))
        try:
            with pytest.raises(OutputError, match="File too large; nothing was left behind"):
                writer.save()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        assert not [*tmp_path.iterdir()]
        writer.save()
    assert [path.name for path in tmp_path.iterdir()] == ["o.npz"]
