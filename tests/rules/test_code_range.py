"""QN502: weights whose scale is in another unit are reported, stored or float; weights of few levels are not."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, node, tensor

from qdqtool import rules, targets
from qdqtool.findings import Finding
from qdqtool.graph.model import Model
from qdqtool.rules import RuleContext

RANGES = {T.INT8: (-128, 127), T.INT4: (-8, 7)}


def findings(model: onnx.ModelProto) -> list[Finding]:
    return list(rules.get("QN502").run(RuleContext(Model(model)), targets.get("tensorrt-rtx")))


def stored(codes: np.ndarray, scale: object, kind: int = T.INT8, zero_point: int | None = None) -> onnx.ModelProto:
    extra = [] if zero_point is None else [tensor("z", np.full(np.shape(scale), zero_point), kind)]
    names = ["w", "s", "z"][: 2 + len(extra)]
    return graph_model(
        [node("DequantizeLinear", names, "y", axis=0)],
        [],
        [("y", T.FLOAT, list(codes.shape))],
        [tensor("w", codes, kind), tensor("s", np.asarray(scale)), *extra],
        21,
        10,
    )


def as_float(weight: np.ndarray, scale: object) -> onnx.ModelProto:
    scale = np.asarray(scale)
    return graph_model(
        [node("QuantizeLinear", ["w", "s", "z"], "q", axis=0), node("DequantizeLinear", ["q", "s", "z"], "y", axis=0)],
        [],
        [("y", T.FLOAT, list(weight.shape))],
        [tensor("w", weight), tensor("s", scale), tensor("z", np.zeros(scale.shape), T.INT8)],
        21,
        10,
    )


def weight_and_scale(shape: tuple[int, ...], *, per_channel: bool, high: int = 127) -> tuple[np.ndarray, np.ndarray]:
    weight = np.random.default_rng(0).laplace(size=shape)
    greatest = np.abs(weight).reshape(shape[0], -1).max(1) if per_channel else np.abs(weight).max()
    return weight, np.asarray(greatest / high)


@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("shape", [(16, 3, 3, 3), (32, 1, 3, 3), (64, 64), (1000, 300)])
@pytest.mark.parametrize("factor", [1, 0.001, 1000])
def test_stored_codes_of_a_scale_in_another_unit_are_reported(
    factor: float, shape: tuple[int, ...], per_channel: bool, kind: int
):
    low, high = RANGES[kind]
    weight, scale = weight_and_scale(shape, per_channel=per_channel, high=high)
    scale = scale * factor
    codes = np.clip(np.rint(weight / scale.reshape(-1, *[1] * (len(shape) - 1))), low, high)

    said = findings(stored(codes.reshape(shape), scale, kind))

    assert [(finding.severity, finding.effect) for finding in said] == ([] if factor == 1 else [("warning", "silent")])


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(
    ("factor", "word"), [(1, ""), (0.001, "are clipped"), (1000, "rounds to code 0"), (1e6, "rounds to code 0")]
)
def test_a_float_weight_that_a_scale_destroys_is_an_error(factor: float, word: str, per_channel: bool):
    weight, scale = weight_and_scale((64, 64), per_channel=per_channel)

    said = findings(as_float(weight, scale * factor))

    assert [(finding.severity, word in finding.message) for finding in said] == ([("error", True)] if word else [])


RNG = np.random.default_rng(1)
NORMAL = RNG.normal(size=(64, 64))
GOOD = {
    "binary": np.where(NORMAL > 0, 127, -127),
    "ternary": np.clip(np.rint(NORMAL), -1, 1) * 127,
    "ternary with codes up to 1": np.clip(np.rint(NORMAL / 0.8), -1, 1),
    "pruned": np.where(RNG.random((64, 64)) < 0.98, 0, np.clip(np.rint(NORMAL * 40), -127, 127)),
    "powers of 2": np.sign(NORMAL) * np.round(127 * 2.0 ** -RNG.integers(0, 6, (64, 64))),
    "2 bits": RNG.choice([-127, -42, 42, 127], (64, 64)),
    "3 bits": RNG.choice([-127, -85, -42, 0, 42, 85, 127], (64, 64)),
    "a Fourier basis": np.rint(127 * np.cos(np.outer(np.arange(64), np.arange(512)) * np.pi / 256)),
    "zeros": np.zeros((64, 64)),
}


@pytest.mark.parametrize("codes", GOOD.values(), ids=list(GOOD))
def test_weights_that_were_meant_so_are_not_reported(codes: np.ndarray):
    assert findings(stored(codes, 1.0)) == []


def test_codes_with_a_zero_point_are_judged_from_it():
    weight = np.random.default_rng(0).normal(size=(64, 64)) + 1
    low, scale = weight.min(), np.ptp(weight) / 255
    zero = round(-low / scale)

    def codes(factor: float) -> np.ndarray:
        return np.clip(np.rint(weight / (scale * factor)) + zero, 0, 255)

    assert findings(stored(codes(1), scale, T.UINT8, zero)) == []
    assert "are 0 or 255" in findings(stored(codes(0.001), scale, T.UINT8, zero))[0].message
    assert "stands for 0" in findings(stored(codes(1e5), scale * 1e5, T.UINT8, zero))[0].message


def test_codes_in_blocks_are_read_with_the_scale_of_their_block():
    weight = np.random.default_rng(0).normal(size=(8, 64))
    scale = np.abs(weight).reshape(8, 4, 16).max(2) / 127

    def model(factor: float) -> onnx.ModelProto:
        attributes = {"axis": 1, "block_size": 16}
        return graph_model(
            [
                node("QuantizeLinear", ["w", "s"], "q", output_dtype=T.INT8, **attributes),
                node("DequantizeLinear", ["q", "s"], "y", **attributes),
            ],
            [],
            [("y", T.FLOAT, [8, 64])],
            [tensor("w", weight), tensor("s", scale * factor)],
            21,
            10,
        )

    assert findings(model(1)) == []
    assert "are clipped" in findings(model(0.001))[0].message


def test_a_mask_whose_zero_point_is_at_an_end_is_a_binary_weight():
    mask = np.where(np.tril(np.ones((32, 32))) > 0, 255, 0)

    assert findings(stored(mask, 0.1, T.UINT8, 255)) == []


@pytest.mark.parametrize("is_stored", [True, False])
def test_zero_points_that_do_not_fit_one_scale_are_left_to_their_own_rule(is_stored: bool):
    weight = np.arange(8.0).reshape(2, 4)
    model = stored(weight, 0.1) if is_stored else as_float(weight, 0.1)
    for each in model.graph.node:
        if each.op_type in {"QuantizeLinear", "DequantizeLinear"}:
            each.input[:] = [*each.input[:2], "two"]
    model.graph.initializer.append(tensor("two", np.ones(2), T.INT8))
    assert findings(model) == []
