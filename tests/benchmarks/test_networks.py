"""The page of `make zoo`: rows written and read again, the promises that they may break, and the tables."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper
from support.small import make_model

from benchmarks.networks import network, outputs, page, storage
from benchmarks.networks.row import Exported, Left, Mode, Row, from_json

GOOD = Mode(pairs=3, weights=4, equalized=1, sqnr_db=35.0, planned=4, achieved=4, stripped_db=40.0)
ROW = Row(
    "net",
    exporter="torchscript",
    nodes=5,
    quantized=4,
    modes={"int8": GOOD, "int4": Mode(nothing="nothing is left to quantize")},
    ort=Exported(sqnr_db=30.0, nodes=4),
    others={"dynamo": Exported(3, 4, 1, 35.2)},
)


def with_int8(**changes: object) -> Row:
    return replace(ROW, modes={**ROW.modes, "int8": replace(GOOD, **changes)})


def test_a_row_is_read_as_it_was_written(tmp_path):
    row = with_int8(left=[Left("Gemm", "few channels", 1)], sqnr_db=float("inf"))
    assert from_json(row.to_json()) == row
    storage.write(tmp_path / "rows.json", {"net": row})
    assert storage.read(tmp_path / "rows.json", from_json) == {"net": row}
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (Row("net"), "net: no exporter writes it"),
        (Row("net", crash="Killed"), "net: Killed"),
        (with_int8(failed="quantize: exit code 5: a bug"), "net, int8: quantize: exit code 5: a bug"),
        (with_int8(unexplained=2), "net, int8: 2 nodes stay float without a reason"),
        (with_int8(findings=["1 QT401"]), "net, int8: validate finds 1 QT401"),
        (with_int8(check="output 'y' has NaN"), "net, int8: check fails: output 'y' has NaN"),
        (with_int8(refusal="no kernel"), "net, int8: TensorRT builds the float model and not this: no kernel"),
        (with_int8(achieved=3), "net, int8: 3 of 4 planned nodes run so, without a reason"),
        (
            replace(with_int8(sqnr_db=3.0, check="output 'y': found 3 dB"), ort=Exported(failed="no")),
            "net, int8: check fails: output 'y': found 3 dB",
        ),
        (
            replace(with_int8(sqnr_db=9.0), ort=Exported(sqnr_db=11.0, nodes=4)),
            "net: int8 has 9.0 dB, ONNX Runtime 11.0 on the same nodes",
        ),
        (with_int8(sqnr_db=29.4), "net: int8 has 29.4 dB, ONNX Runtime 30.0 on the same nodes"),
        (
            replace(with_int8(sqnr_db=28.9), ort=Exported(sqnr_db=30.0, nodes=4, error_db=0.5)),
            "net: int8 has 28.9 dB, ONNX Runtime 30.0 on the same nodes",
        ),
        (replace(ROW, others={"dynamo": Exported(failed="quantize: no")}), "net, dynamo: quantize: no"),
    ],
)
def test_every_broken_promise_is_told(row, problem):
    assert list(page.problems(row)) == [problem]


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        replace(with_int8(refusal="no kernel"), float_refusal="no kernel"),
        with_int8(achieved=3, fallbacks=[Left("Conv", "its kernel needs 16 channels", 1)]),
        with_int8(sqnr_db=29.6),
        replace(with_int8(sqnr_db=29.1), ort=Exported(sqnr_db=30.0, nodes=4, error_db=0.5)),
        replace(with_int8(sqnr_db=20.0), ort=Exported(sqnr_db=30.0, nodes=3)),
        replace(with_int8(sqnr_db=70.0), ort=Exported(sqnr_db=90.0, nodes=4)),
        replace(with_int8(sqnr_db=20.0), ort=Exported(failed="it does not know Einsum")),
        replace(with_int8(sqnr_db=3.0, check="output 'y': found 3 dB"), ort=Exported(sqnr_db=4.0, nodes=4)),
    ],
)
def test_a_good_row_and_what_has_a_reason_break_no_promise(row):
    assert list(page.problems(row)) == []


def test_outputs_are_compared_by_the_worst_of_them(tmp_path):
    nodes = [helper.make_node("Mul", ["x", "k"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    for name, factor in (("a", 2.0), ("b", 2.02)):
        model = make_model(nodes, {"x": (1, 4)}, {"y": (1, 4), "z": (1, 4)}, {"k": np.float32([factor])})
        onnx.save(model, tmp_path / f"{name}.onnx")
    np.savez(tmp_path / "d.npz", x=np.ones((3, 1, 4), np.float32))
    first, second = (outputs.of(tmp_path / f"{name}.onnx", tmp_path / "d.npz") for name in "ab")
    assert {name: len(each) for name, each in first.items()} == {"y": 3, "z": 3}
    assert outputs.worst(first, first) == float("inf")
    assert outputs.worst(first, second) == pytest.approx(40, abs=0.01)


def test_a_difference_has_the_standard_error_of_the_jackknife():
    random = np.random.default_rng(0)
    exact = {"y": list(random.normal(size=(6, 5)).astype(np.float32))}
    one, other = ({"y": [each + scale * random.normal(size=5) for each in exact["y"]]} for scale in (0.1, 0.2))

    def without(index):
        kept = [number for number in range(6) if number != index]
        parts = ({"y": [model["y"][number] for number in kept]} for model in (exact, one, other))
        expected, first, second = parts
        return outputs.worst(expected, first) - outputs.worst(expected, second)

    found = [without(index) for index in range(6)]
    assert outputs.difference_error(exact, one, other) == pytest.approx(np.sqrt(5 * np.var(found)))
    assert outputs.difference_error(exact, one, one) == 0
    single = ({"y": model["y"][:1]} for model in (exact, one, other))
    assert outputs.difference_error(*single) == float("inf")


def test_samples_are_complete_and_the_same_for_a_seed():
    makers = {
        "image": network.image(16),
        "tokens": network.tokens(8, 100, mask=True),
        "normal": network.normal(a=(1, 2, 3), b=(4,)),
    }
    for make in makers.values():
        first, again = (make(np.random.default_rng(3)) for _ in range(2))
        assert all(np.array_equal(first[name], again[name]) for name in first)
    sample = makers["image"](np.random.default_rng(3))["image"]
    assert (sample.shape, sample.dtype) == ((1, 3, 16, 16), np.float32)
    near = np.abs(np.diff(sample, axis=3)).mean()
    assert (
        near
        < 0.5 * np.abs(sample - np.random.default_rng(4).permutation(sample.reshape(-1)).reshape(sample.shape)).mean()
    )
