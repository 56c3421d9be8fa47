"""QN502: weights whose scale is in another unit are reported, stored or float; weights of few levels are not."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, node, tensor

from qdqtool.linting import rules
from qdqtool.linting.findings import Extent, Finding
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

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


def quantized(values: object, kind: int = T.INT8, scale: object = 1.0, zero_point: int = 0) -> onnx.ModelProto:
    """A float weight and its pair, so that its codes are ``values / scale`` before they are rounded."""
    weight = np.asarray(values, np.float32)
    extra = [tensor("z", np.full(np.shape(scale), zero_point), kind)]
    nodes = [
        node("QuantizeLinear", ["w", "s", "z"], "q", axis=0),
        node("DequantizeLinear", ["q", "s", "z"], "y", axis=0),
    ]
    constants = [tensor("w", weight), tensor("s", np.asarray(scale)), *extra]
    return graph_model(nodes, [], [("y", T.FLOAT, list(weight.shape))], constants, 25, 11)


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

    said = findings(quantized(weight, scale=scale * factor))

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
    assert "represents 0" in findings(stored(codes(1e5), scale * 1e5, T.UINT8, zero))[0].message


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
    model = stored(weight, 0.1) if is_stored else quantized(weight, scale=0.1)
    for each in model.graph.node:
        if each.op_type in {"QuantizeLinear", "DequantizeLinear"}:
            each.input[:] = [*each.input[:2], "two"]
    model.graph.initializer.append(tensor("two", np.ones(2), T.INT8))
    assert findings(model) == []


SPREAD = np.linspace(-127, 127, 40)
"""Codes of many levels, of which two are at the ends."""


def codes_up_to(greatest: float, count: int = 64) -> np.ndarray:
    """Codes from ``-greatest`` to ``greatest``, neither of which many have."""
    return np.linspace(-greatest, greatest, count)


def only(model: onnx.ModelProto) -> Finding | None:
    found = findings(model)
    assert len(found) <= 1
    return found[0] if found else None


def said(model: onnx.ModelProto) -> str:
    """What the finding says after the name of the weight; empty without one."""
    finding = only(model)
    if finding is None:
        return ""
    head = "the scale does not fit weight 'w': "
    assert finding.message == head + str(finding.found)
    return str(finding.found)


@pytest.mark.parametrize(
    ("clipped", "severity", "found"),
    [(5, None, ""), (6, "warning", "6%"), (50, "warning", "50%"), (51, "error", "51%"), (100, "error", "100%")],
)
def test_clipping_is_counted(clipped: int, severity: str | None, found: str):
    finding = only(quantized(np.where(np.arange(100) < clipped, 254.0, np.linspace(-127, 127, 100))))

    assert (finding and finding.severity) == severity
    if finding is not None:
        kept = np.linspace(-127, 127, 100)[clipped:]
        lost = np.sqrt(clipped * 127.0**2 / (clipped * 254.0**2 + np.sum(kept**2)))
        assert (finding.found, finding.expected) == (f"{found} of the values are clipped", "at most 5%")
        assert finding.extent is not None
        assert (finding.extent.kind, finding.extent.degree) == ("clipped", pytest.approx(lost))


@pytest.mark.parametrize("scale", [0.0, 1e-45])
def test_what_a_scale_of_0_clips_is_a_finite_number(scale: float):
    finding = only(quantized(np.linspace(-1, 1, 64), scale=scale))

    assert finding is not None
    assert (finding.found, finding.extent) == ("100% of the values are clipped", Extent("clipped", degree=1.0))


@pytest.mark.parametrize(("beyond", "clips"), [(127.5, False), (127.6, True), (-128.5, False), (-128.6, True)])
def test_a_value_is_clipped_from_half_a_step_beyond_the_last_code(beyond: float, clips: bool):
    values = np.where(np.arange(64) < 32, beyond, np.linspace(-127, 127, 64))

    assert said(quantized(values)) == ("50% of the values are clipped" if clips else "")


def test_a_weight_of_2_bits_may_have_half_of_its_values_clipped():
    values = np.resize([-2.0, -1.0, 0.0, 1.0], 64)

    assert said(quantized(np.where(np.arange(64) < 32, 5.0, values), T.INT2)) == ""
    assert said(quantized(np.where(np.arange(64) < 33, 5.0, values), T.INT2)) == "52% of the values are clipped"


@pytest.mark.parametrize("count", [63, 64])
def test_a_weight_of_few_values_is_not_judged(count: int):
    assert bool(said(quantized(np.full(count, 1000.0)))) == (count == 64)


def test_every_weight_is_judged():
    bad, few, good = np.full(64, 1000.0), np.full(8, 1000.0), codes_up_to(127)
    weights = {"few": few, "good": good, "bad": bad, "worse": bad * 2}
    nodes = [node("QuantizeLinear", [name, "s", "z"], f"{name}_q") for name in weights]
    nodes += [node("DequantizeLinear", [f"{name}_q", "s", "z"], f"{name}_d") for name in weights]
    constants = [tensor(name, values) for name, values in weights.items()]
    outputs = [(f"{name}_d", T.FLOAT, [values.size]) for name, values in weights.items()]
    model = graph_model(nodes, [], outputs, [*constants, tensor("s", 1.0), tensor("z", 0, T.INT8)])

    assert [finding.tensor for finding in findings(model)] == ["bad", "worse"]


def test_a_float_weight_with_many_values_just_at_the_ends_is_as_it_was_meant():
    assert said(quantized(np.concatenate([np.full(24, 127.0), SPREAD]))) == ""


@pytest.mark.parametrize(
    ("ends", "found"), [(8, ""), (12, "20.0% of its int8 codes that are not 0 are 127 or more in magnitude")]
)
def test_stored_codes_at_the_ends_are_counted_beyond_the_one_that_the_scale_explains(ends: int, found: str):
    inside = np.tile(np.arange(1, 11), 10)[: 60 - ends + 1]
    model = stored(np.concatenate([np.full(ends, 127), inside * 12, np.zeros(40)]), 0.1)

    # One of the codes at an end is that of the greatest value.
    finding = only(model)
    if not found:
        assert finding is None
        return
    assert finding is not None
    share = (ends - 1) / 60
    assert finding.found == found.replace("20.0%", f"{share:.1%}")
    assert finding.expected == "at most 15%"
    assert finding.extent == Extent("saturated", 1, share)


def test_stored_codes_of_2_bits_are_not_judged_by_their_ends():
    assert said(stored(np.resize([-2, -1, 1], 66), 0.1, T.INT2)) == ""


@pytest.mark.parametrize(
    ("values", "zero_point", "found"),
    [
        (np.full(64, 0.5), 0, "every value, up to 0.5, rounds to code 0"),
        (np.linspace(-0.5, 0.25, 64), 0, "every value, up to 0.5, rounds to code 0"),
        (np.linspace(0, 0.25, 64), 0, "every value, up to 0.25, rounds to code 0"),
        (codes_up_to(0.5), 7, "every value, up to 0.5, rounds to code 0"),
        (codes_up_to(0.625), 0, "no int8 code is beyond 0.625"),
        (np.zeros(64), 0, ""),
    ],
)
def test_a_float_weight_that_rounds_to_0(values: np.ndarray, zero_point: int, found: str):
    assert said(quantized(values, zero_point=zero_point)) == found


@pytest.mark.parametrize(
    ("scale", "found"),
    [
        (1.0, ""),
        (0.00009, ""),
        (0.0002, "every code represents 0, although the scale is 0.0002"),
        ([1.0, 1.0, 4.0, 2.0], "every code represents 0, although the scale is 4"),
        ([1.0, 0.00009, 1.0, 1.0], ""),
    ],
)
def test_stored_zeros_are_a_lost_weight_where_the_scale_was_found_from_values(scale: object, found: str):
    finding = only(stored(np.zeros((4, 16)), scale))

    assert (finding.found if finding else "") == found
    if finding is not None:
        assert (finding.severity, finding.effect) == ("warning", "silent")
        assert (finding.expected, finding.extent) == ("codes over the whole range", Extent("vanished"))


@pytest.mark.parametrize("code", [0, 1])
def test_zeros_are_judged_where_the_whole_weight_was_read(code: int):
    codes = np.zeros(70_000)
    codes[4096 + 10] = code  # between two pieces of the sample

    assert bool(said(stored(codes, 0.1))) == (code == 0)


def test_stored_zeros_with_a_scale_that_is_computed_are_not_judged():
    model = stored(np.zeros((4, 16)), 0.1)
    model.graph.input.append(onnx.helper.make_tensor_value_info("s", T.FLOAT, []))
    del model.graph.initializer[1]

    assert said(model) == ""


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (quantized(codes_up_to(31.75)), ""),
        (quantized(codes_up_to(31.5)), "no int8 code is beyond 31.5"),
        (quantized(codes_up_to(3)), "no int8 code is beyond 3"),
        (quantized(np.resize([-1, 1], 64)), "no int8 code is beyond 1"),
        (quantized(codes_up_to(7)), ""),
        (quantized(codes_up_to(15)), ""),
        (quantized(codes_up_to(7), T.INT16), "no int16 code is beyond 7"),
        (quantized(codes_up_to(3000), T.INT16), "no int16 code is beyond 3000"),
        (stored(np.resize(np.arange(-6, 7), 65), 0.1), "no int8 code is beyond 6"),
        (stored(np.resize(np.arange(-7, 8), 65), 0.1), ""),
        (stored(np.resize(np.arange(-15, 16), 65), 0.1), ""),
        (stored(np.resize(np.arange(-16, 17), 66), 0.1), "no int8 code is beyond 16"),
        (stored(np.resize(np.arange(-7, 8), 65), 0.1, T.INT16), "no int16 code is beyond 7"),
        (stored(np.resize([1, -1, 0, 0, 0, 0, 0, 0], 64), 0.1), ""),
        (stored(np.resize([1, 0, 0, 0, 0], 65), 0.1), "no int8 code is beyond 1"),
        (stored(np.resize([1, -1], 64), 0.1, T.INT16), "no int16 code is beyond 1"),
        (stored(np.resize(np.arange(30), 64), 0.1, T.UINT8, 10), ""),
        (stored(np.resize(np.arange(30), 64), 0.1, T.INT8, 10), ""),
        (quantized(codes_up_to(1), T.FLOAT4E2M1), "no float4e2m1 code is beyond 1"),
        (quantized(codes_up_to(1.5), T.FLOAT4E2M1), ""),
        (quantized(codes_up_to(40), T.FLOAT8E4M3FN), ""),
        (quantized(codes_up_to(448 * 2.0**-12), T.FLOAT8E4M3FN), ""),
        (quantized(codes_up_to(448 * 2.0**-13), T.FLOAT8E4M3FN), "no float8e4m3fn code is beyond 0.0546875"),
    ],
)
def test_codes_that_use_a_small_part_of_the_range(model: onnx.ModelProto, found: str):
    assert said(model) == found


def test_the_extent_of_unused_codes_is_the_bits_that_are_lost():
    finding = only(quantized(codes_up_to(127 / 16), scale=0.5))  # the greatest code is an eighth of the last one

    assert finding is not None
    assert finding.expected == "codes up to 127"
    assert finding.extent == Extent("unused", 1, 3.0)


@pytest.mark.parametrize(
    ("levels", "share", "limit"),
    [(1, 100, None), (4, 90, None), (5, 90, "60%"), (8, 50, None), (9, 50, "15%"), (4, 98, "95%"), (8, 70, "60%")],
)
def test_fewer_levels_may_have_more_codes_at_the_ends(levels: int, share: int, limit: str | None):
    """Of 100 codes that are not 0, so many are at the ends, and the others are of ``levels - 1`` magnitudes."""
    inside = np.resize(np.arange(1, levels) * 5, 100 - share) if levels > 1 else np.zeros(0)
    finding = only(stored(np.concatenate([np.full(share + 1, 127), inside, np.zeros(20)]), 0.1))

    assert (finding.expected if finding else None) == (f"at most {limit}" if limit else None)


@pytest.mark.parametrize(("scale", "count"), [(1e-4, 0), (1.0001e-4, 1), (1.0, 0), (1.0001, 1)])
def test_the_scales_that_tools_give_to_zeros(scale: float, count: int):
    model = stored(np.zeros((4, 16)), 0.1)
    model.graph.initializer[1].CopyFrom(tensor("s", scale, T.DOUBLE))

    assert len(findings(model)) == count


def test_the_codes_of_the_examples_are_those_that_a_q_makes():
    """The saturated ones are those of the wide weight, which has the scale 1, with a scale of 0.025."""
    rule = rules.get("QN502")
    models = {each.title: each.model() for each in (*rule.VALID, *rule.INVALID)}
    weights = {
        title: onnx.numpy_helper.to_array(each).reshape(-1).astype(int)
        for title, model in models.items()
        for each in model.graph.initializer
        if each.name == "w"
    }

    wide, saturated = weights["codes over the whole range"], weights["nearly all stored codes at the ends of the range"]
    assert wide.tolist() == list(range(-126, 127, 4))
    assert saturated.tolist() == np.clip(wide * 40, -128, 127).tolist()
    assert sorted(set(weights["codes of 16 at most"].tolist())) == list(range(-16, 17))
