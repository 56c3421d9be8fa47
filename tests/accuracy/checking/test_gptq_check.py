"""Weights whose codes data chose: a check finds them as far off as they were noted, and any damage besides."""

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.command import qdqtool
from support.paths import ROOT
from support.small import make_model

from qdqtool.accuracy.checking.gptq_check import GptqCheck, NotedRounding
from qdqtool.jobs.cast import cast_model
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.strip import strip_model
from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.io.metadata import CALIBRATION_KEY, ROUNDING_KEY
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.numerics import formats
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.gptq import DAMPING, MOST_RMS_STEPS, round_weights
from qdqtool.numerics.granularity import Blocked, Granularity, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.statistics import input_moments
from qdqtool.samples.request import DataRequest, RandomData

SAMPLES = ROOT / "sample_models"
CHANNELS, LAYERS = 128, 6


def network() -> onnx.ModelProto:
    """Six products with a Relu between any two."""
    rng = np.random.default_rng(0)
    weights = {
        f"w{i}": (rng.normal(size=(CHANNELS, CHANNELS)) / np.sqrt(CHANNELS)).astype(np.float32) for i in range(LAYERS)
    }
    nodes, last = [], "x"
    for name in weights:
        nodes += [
            helper.make_node("MatMul", [last, name], [f"m_{name}"]),
            helper.make_node("Relu", [f"m_{name}"], [f"r_{name}"]),
        ]
        last = f"r_{name}"
    nodes.pop()
    return make_model(nodes, {"x": ("n", CHANNELS)}, {"m_w5": ("n", CHANNELS)}, weights)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the float model, data whose channels go together, and both models of few bits."""
    folder, rng = tmp_path_factory.mktemp("rounded"), np.random.default_rng(1)
    onnx.save(network(), folder / "float.onnx")
    rows = rng.normal(size=(256, 32)) @ rng.normal(size=(32, CHANNELS)) + 0.1 * rng.normal(size=(256, CHANNELS))
    np.savez(folder / "data.npz", x=rows.astype(np.float32))
    for mode in ("int4", "nvfp4"):
        options = QuantizeOptions(recipe=Recipe(quantize_mode=mode))
        quantize_model(folder / "float.onnx", folder / "data.npz", folder / f"{mode}.onnx", options)
    return folder


def noted(model: onnx.ModelProto, key: str = ROUNDING_KEY) -> list[dict]:
    return json.loads(next((entry.value for entry in model.metadata_props if entry.key == key), "[]"))


def initializer(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(tensor for tensor in model.graph.initializer if tensor.name == name)


def by_hand(model: onnx.ModelProto, name: str) -> np.ndarray:
    """A weight dequantized with NumPy and onnx alone, in float64."""
    codes = numpy_helper.to_array(initializer(model, f"{name}_quantized")).astype(np.float64)
    if any(tensor.name == f"{name}_scale" for tensor in model.graph.initializer):
        scale = numpy_helper.to_array(initializer(model, f"{name}_scale")).astype(np.float64)
    else:
        inner = numpy_helper.to_array(initializer(model, f"{name}_scale_quantized")).astype(np.float32)
        scale = (inner * numpy_helper.to_array(initializer(model, f"{name}_scale_scale"))).astype(np.float64)
    return codes * np.repeat(scale, codes.shape[0] // scale.shape[0], axis=0)


@pytest.mark.parametrize("mode", ["int4", "nvfp4"])
def test_our_own_models_pass_and_the_report_says_which_weights_were_judged_by_data(made: Path, mode: str) -> None:
    report = check_model(made / f"{mode}.onnx", baseline=made / "float.onnx", data=made / "data.npz")
    assert report.passed, report.failures
    assert {found.tensor for found in report.boundaries if found.judged_by_data} == {f"w{i}" for i in range(LAYERS)}
    gate = next(gate for gate in report.gates if gate.name == "weights")
    assert gate.detail == "6 weights; data chose the codes of 6"


@pytest.mark.parametrize("mode", ["int4", "nvfp4"])
def test_the_note_has_the_error_of_every_weight_and_data_chose_in_each(made: Path, mode: str) -> None:
    quantized, source = onnx.load(made / f"{mode}.onnx"), onnx.load(made / "float.onnx")
    entries = {entry["tensor"]: entry for entry in noted(quantized)}
    assert set(entries) == {f"w{i}" for i in range(LAYERS)}
    for name, entry in entries.items():
        weight = numpy_helper.to_array(initializer(source, name)).astype(np.float64)
        assert entry["error"] == pytest.approx(np.mean((by_hand(quantized, name) - weight) ** 2), rel=1e-6)
        if mode == "int4":
            scale = np.repeat(numpy_helper.to_array(initializer(quantized, f"{name}_scale")), 64, axis=0)
            codes = numpy_helper.to_array(initializer(quantized, f"{name}_quantized")).astype(int)
            assert np.mean(codes != np.clip(np.rint(weight / scale), -8, 7)) > 0.05


QUICK = {("int4", HighPrecision.FP16)}


@pytest.mark.parametrize(
    ("mode", "high_precision"),
    [
        pair if pair in QUICK else pytest.param(*pair, marks=pytest.mark.slow(reason="every mode"))
        for pair in product(["int4", "nvfp4", "int8-weight-only", "int8", "fp8"], HighPrecision)
    ],
)
def test_every_mode_passes_its_own_check(mode: str, high_precision: HighPrecision, tmp_path: Path) -> None:
    folder = SAMPLES / "digits_transformer"
    options = QuantizeOptions(recipe=Recipe(quantize_mode=mode, high_precision=high_precision))
    quantize_model(folder / "model.onnx", folder / "calibration.npz", tmp_path / "q.onnx", options)
    report = check_model(tmp_path / "q.onnx", baseline=folder / "model.onnx")
    assert report.passed, report.failures
    assert any(found.judged_by_data for found in report.boundaries) == (mode in {"int4", "nvfp4"})


@pytest.mark.parametrize("passes", [1, pytest.param(LAYERS, marks=pytest.mark.slow(reason="a pass for each layer"))])
def test_the_product_of_every_layer_gains(
    made: Path, passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the true inputs of each layer, also where moments are gathered layer by layer to save memory."""
    path = made / "int4.onnx"
    if passes > 1:
        monkeypatch.setattr(input_moments, "MOST_BYTES", 1)
        path = tmp_path / "q.onnx"
        options = QuantizeOptions(recipe=Recipe(quantize_mode="int4"))
        quantize_model(made / "float.onnx", made / "data.npz", path, options)
        assert path.read_bytes() == (made / "int4.onnx").read_bytes()
    quantized, source, x = onnx.load(path), onnx.load(made / "float.onnx"), np.load(made / "data.npz")["x"]
    for i in range(LAYERS):
        weight = numpy_helper.to_array(initializer(source, f"w{i}"))
        scale = np.repeat(numpy_helper.to_array(initializer(quantized, f"w{i}_scale")), 64, axis=0)
        nearest = np.clip(np.rint(weight / scale), -8, 7) * scale
        lost, lost_by_nearest = (
            np.linalg.norm(x @ (weight - found)) for found in (by_hand(quantized, f"w{i}"), nearest)
        )
        assert lost < 0.8 * lost_by_nearest
        x = np.maximum(x @ weight, 0)


WEIGHT = (np.random.default_rng(2).normal(size=(CHANNELS, 64)) / 8).astype(np.float32)
TURNED = np.ascontiguousarray(WEIGHT.T)
PRODUCT = helper.make_node("MatMul", ["x", "w"], ["y"])
FORMS = {
    "Gemm": ([helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], {"w": TURNED}),
    "behind a Transpose": ([helper.make_node("Transpose", ["s"], ["w"]), PRODUCT], {"s": TURNED}),
    "behind a Cast": (
        [helper.make_node("Cast", ["s"], ["w"], to=TensorProto.FLOAT), PRODUCT],
        {"s": WEIGHT.astype(np.float16)},
    ),
    "behind a Mul": ([helper.make_node("Mul", ["s", "f"], ["w"]), PRODUCT], {"s": WEIGHT, "f": np.float32(0.3)}),
    "shared": (
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("MatMul", ["r", "w"], ["p"]),
            helper.make_node("MatMul", ["x", "w"], ["q"]),
            helper.make_node("Sub", ["p", "q"], ["y"]),
        ],
        {"w": WEIGHT},
    ),
}


@pytest.mark.parametrize("mode", ["int4", "nvfp4"])
@pytest.mark.parametrize(("nodes", "weights"), FORMS.values(), ids=FORMS)
def test_matrices_in_every_form_are_rounded_by_data_and_found_so(
    made: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], mode: str, tmp_path: Path
) -> None:
    onnx.save(make_model(nodes, {"x": ("n", CHANNELS)}, {"y": ("n", 64)}, weights), tmp_path / "float.onnx")
    options = QuantizeOptions(recipe=Recipe(quantize_mode=mode))
    report = quantize_model(tmp_path / "float.onnx", made / "data.npz", tmp_path / "q.onnx", options)
    assert all("codes chosen with the calibration data" in entry.reason for entry in report.quantized)
    checked = check_model(tmp_path / "q.onnx", baseline=tmp_path / "float.onnx", data=made / "data.npz")
    assert checked.passed, checked.failures
    assert [found.judged_by_data for found in checked.boundaries] == [True]


# --- damage ---


def scaled(factor: float, where: tuple[slice | int, ...] = ()):
    def damage(model: onnx.ModelProto) -> None:
        (tensor,) = (each for each in model.graph.initializer if each.name.startswith("w3_scale"))
        scale = numpy_helper.to_array(tensor).copy()
        scale[where] = (scale[where] * np.float32(factor)).astype(scale.dtype)
        tensor.CopyFrom(numpy_helper.from_array(scale, tensor.name))

    return damage


def recoded(change):
    def damage(model: onnx.ModelProto) -> None:
        tensor = initializer(model, "w3_quantized")
        codes = numpy_helper.to_array(tensor).astype(np.int8)
        tensor.CopyFrom(make_tensor(tensor.name, change(codes), TensorProto.INT4))

    return damage


def one_step_off(codes: np.ndarray) -> np.ndarray:
    codes = codes.copy()
    codes[5, 7] += 1 if codes[5, 7] < 0 else -1
    return codes


DAMAGES = {
    "the scale of one channel": scaled(1.3, (slice(None), 17)),
    "the scale of one block": scaled(1.3, (1, 17)),
    "the scale of one block by a little": scaled(0.99, (0, 40)),
    "rows shuffled": recoded(lambda codes: np.random.default_rng(4).permutation(codes)),
    "two rows swapped": recoded(lambda codes: codes[[1, 0, *range(2, CHANNELS)]]),
    "transposed": recoded(np.transpose),
    "one code one step off": recoded(one_step_off),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_to_one_weight_is_found_and_named(made: Path, tmp_path: Path, damage) -> None:
    model = onnx.load(made / "int4.onnx")
    damage(model)
    onnx.save(model, tmp_path / "damaged.onnx")
    report = check_model(tmp_path / "damaged.onnx", baseline=made / "float.onnx", data=made / "data.npz")
    (failure,) = next(gate for gate in report.gates if gate.name == "weights").failures
    assert failure.startswith("weight 'w3', packed at")
    assert "when data chose its codes" in failure


@pytest.fixture(scope="module")
def cast(made: Path) -> Path:
    cast_model(made / "int4.onnx", made / "cast.onnx", data=DataRequest(path=made / "data.npz"))
    return made / "cast.onnx"


def test_a_cast_model_passes(made: Path, cast: Path) -> None:
    report = check_model(cast, baseline=made / "float.onnx", data=made / "data.npz")
    assert report.passed, report.failures


@pytest.mark.parametrize("damage", [scaled(1.01), scaled(0.99), scaled(1.3, (1, 17)), DAMAGES["two rows swapped"]])
def test_damage_to_a_cast_model_is_found(made: Path, cast: Path, tmp_path: Path, damage) -> None:
    model = onnx.load(cast)
    damage(model)
    onnx.save(model, tmp_path / "damaged.onnx")
    report = check_model(tmp_path / "damaged.onnx", baseline=made / "float.onnx")
    (failure,) = next(gate for gate in report.gates if gate.name == "weights").failures
    assert failure.startswith("weight 'w3', packed at")


def test_a_note_that_claims_bfloat16_hides_no_damage(made: Path, tmp_path: Path) -> None:
    model = onnx.load(made / "int4.onnx")
    DAMAGES["one code one step off"](model)
    entries = [{**entry, "type": "bfloat16"} for entry in noted(model)]
    next(entry for entry in model.metadata_props if entry.key == ROUNDING_KEY).value = json.dumps(entries)
    onnx.save(model, tmp_path / "forged.onnx")
    (failure,) = check_model(tmp_path / "forged.onnx", baseline=made / "float.onnx").failures
    assert failure.startswith("weight 'w3'")


def test_a_note_of_quantize_has_no_rounded_scales_and_one_of_a_later_version_is_no_note(
    made: Path, tmp_path: Path
) -> None:
    model = onnx.load(made / "int4.onnx")
    (entry, *rest) = noted(model)
    assert entry.keys() == {"tensor", "scope", "type", "error"}
    assert not msgspec.convert({**entry, "scope": ()}, NotedRounding).rounded
    note = next(entry for entry in model.metadata_props if entry.key == ROUNDING_KEY)
    note.value = json.dumps([{**entry, "later": 1}, *rest])
    onnx.save(model, tmp_path / "later.onnx")
    assert len(check_model(tmp_path / "later.onnx", baseline=made / "float.onnx").failures) == LAYERS


def test_a_damaged_scale_of_scales_is_found(made: Path, tmp_path: Path) -> None:
    model = onnx.load(made / "nvfp4.onnx")
    tensor = initializer(model, "w3_scale_quantized")
    tensor.raw_data = bytes([tensor.raw_data[0] ^ 0x04]) + tensor.raw_data[1:]
    onnx.save(model, tmp_path / "damaged.onnx")
    (failure,) = check_model(tmp_path / "damaged.onnx", baseline=made / "float.onnx").failures
    assert failure.startswith("weight 'w3'")


def test_another_baseline_is_found(made: Path, tmp_path: Path) -> None:
    other = onnx.load(made / "float.onnx")
    tensor = initializer(other, "w2")
    tensor.CopyFrom(numpy_helper.from_array(1.05 * numpy_helper.to_array(tensor), "w2"))
    onnx.save(other, tmp_path / "other.onnx")
    (failure,) = check_model(made / "int4.onnx", baseline=tmp_path / "other.onnx").failures
    assert failure.startswith("weight 'w2'")


@pytest.mark.slow(reason="quantizes a model for each type")
def test_a_float16_model_is_as_far_from_the_float32_one_up_to_what_float16_rounds(made: Path, tmp_path: Path) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(network(), keep_io_types=True), tmp_path / "half.onnx")
    options = QuantizeOptions(recipe=Recipe(quantize_mode="int4"))
    quantize_model(tmp_path / "half.onnx", made / "data.npz", tmp_path / "q.onnx", options)
    for baseline in (tmp_path / "half.onnx", made / "float.onnx"):
        report = check_model(tmp_path / "q.onnx", baseline=baseline)
        assert report.passed, report.failures
        assert sum(found.judged_by_data for found in report.boundaries) == LAYERS


def test_a_note_explains_no_more_than_gptq_can_do(made: Path, tmp_path: Path) -> None:
    """Shuffled codes, and a note with their very error."""
    model, source = onnx.load(made / "int4.onnx"), onnx.load(made / "float.onnx")
    DAMAGES["rows shuffled"](model)
    entries = noted(model)
    weight = numpy_helper.to_array(initializer(source, "w3")).astype(np.float64)
    entries[3]["error"] = float(np.mean((by_hand(model, "w3") - weight) ** 2))
    next(entry for entry in model.metadata_props if entry.key == ROUNDING_KEY).value = json.dumps(entries)
    onnx.save(model, tmp_path / "forged.onnx")
    (failure,) = check_model(tmp_path / "forged.onnx", baseline=made / "float.onnx").failures
    assert "more than GPTQ can explain" in failure


@pytest.mark.parametrize("outlier", [1.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("seed", range(3))
def test_gptq_keeps_to_the_bound_whatever_the_inputs_where_nothing_is_clipped(outlier: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 96)) @ rng.normal(size=(96, 96)) * rng.lognormal(size=96)
    x[:, 3] = outlier * x.sum(axis=1)
    weights = rng.normal(size=(96, 40)).astype(np.float32)
    scheme = QuantScheme(formats.get("int8"), Blocked(0, 32))
    params = QuantParams(scheme, np.full((3, 40), 0.2, np.float32))
    codes = round_weights(weights, params, x.T @ x)
    assert np.abs(codes.astype(int)).max() < 127
    steps = (dequantize(codes, params.scale, scheme.granularity).astype(np.float64) - weights) / np.float64(
        np.float32(0.2)
    )
    assert np.sqrt(np.mean(steps**2, axis=0)).max() <= MOST_RMS_STEPS


# --- notes ---


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "[" * 10000,
        '[{"tensor": "w3"}]',
        '[{"tensor": "other", "scope": [], "type": "float32", "error": 1}]',
    ],
)
def test_without_a_note_that_fits_distant_codes_fail_as_ever(made: Path, text: str, tmp_path: Path) -> None:
    model = onnx.load(made / "int4.onnx")
    next(entry for entry in model.metadata_props if entry.key == ROUNDING_KEY).value = text
    onnx.save(model, tmp_path / "q.onnx")
    report = check_model(tmp_path / "q.onnx", baseline=made / "float.onnx")
    assert len(report.failures) == LAYERS
    assert "the model does not note it, give --max-weight-steps inf" in report.failures[0]


def test_a_note_of_an_earlier_quantization_goes(made: Path, tmp_path: Path) -> None:
    strip_model(made / "int4.onnx", tmp_path / "stripped.onnx")
    options = QuantizeOptions(recipe=Recipe(quantize_mode="int4"))
    quantize_model(tmp_path / "stripped.onnx", None, tmp_path / "q.onnx", options)
    assert noted(onnx.load(tmp_path / "q.onnx")) == []
    assert check_model(tmp_path / "q.onnx", baseline=tmp_path / "stripped.onnx").passed


@pytest.mark.slow(reason="quantizes and checks with random data")
def test_random_data_that_chose_codes_is_told_by_the_report_and_the_linter(made: Path, tmp_path: Path) -> None:
    options = QuantizeOptions(recipe=Recipe(quantize_mode="int4"))
    report = quantize_model(made / "float.onnx", RandomData(seed=3, samples=8), tmp_path / "q.onnx", options)
    assert (report.calibration.method, report.calibration.random, report.calibration.seed) == ("gptq", True, 3)
    assert noted(onnx.load(tmp_path / "q.onnx"), CALIBRATION_KEY) == {
        "method": "gptq",
        "samples": 4,
        "random": True,
        "seed": 3,
        "quantized_nodes": 6,
    }
    found = {finding.code for finding in validate_model(tmp_path / "q.onnx", ["tensorrt"]).findings}
    assert "QN501" in found
    assert "QN501" not in {finding.code for finding in validate_model(made / "int4.onnx", ["tensorrt"]).findings}


def test_without_data_nothing_is_noted(made: Path, tmp_path: Path) -> None:
    report = quantize_model(
        made / "float.onnx", None, tmp_path / "q.onnx", QuantizeOptions(recipe=Recipe(quantize_mode="int4"))
    )
    assert report.calibration is None
    assert not onnx.load(tmp_path / "q.onnx").metadata_props


def test_the_commands_say_it(made: Path) -> None:
    arguments = ["check", made / "int4.onnx", "--baseline", made / "float.onnx"]
    assert "were chosen with data: judged by" in qdqtool(*arguments).out
    found = json.loads(qdqtool(*arguments, "--output-format", "json").out)
    assert all(entry["judged_by_data"] for entry in found["boundaries"])


# --- the conditions themselves, on numbers ---


def noted_check(
    error: float, *, noted_type: str = "float32", found_type: str = "float32", scale_type: str | None = None
) -> GptqCheck:
    """A check of a model whose scales have the noted type, unless another is given."""
    check = GptqCheck(NotedRounding(tensor="w", scope=(), type=noted_type, error=error))
    return replace(check, float_type=found_type, scale_type=noted_type if scale_type is None else scale_type)


def accumulated(noise: float, *, elements: int = 4, signal: float = 64.0) -> AccumulatedError:
    return AccumulatedError(elements=elements, noise=noise, signal=signal)


@pytest.mark.parametrize(
    ("noted_type", "found_type", "roundoff"),
    [
        ("float32", "float32", 2.0**-24),
        ("float16", "float16", 2.0**-24),
        ("bfloat16", "bfloat16", 2.0**-24),
        ("float32", "float16", 2.0**-11),
        ("float16", "float32", 2.0**-11),
        ("bfloat16", "float32", 2.0**-8),
        ("float16", "bfloat16", 2.0**-8),
        ("float64", "float32", 2.0**-24),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_an_error_is_the_noted_one_up_to_the_roundings_of_the_coarser_of_two_types(
    noted_type: str, found_type: str, roundoff: float, sign: int
) -> None:
    """By hand: for errors e + u w, the mean of squares moves by up to ``2 u sqrt(mean w² mean e²) + u² mean w²``."""
    unit, mean, power = 3 * roundoff, 0.25, 16.0
    allowed = 2 * unit * math.sqrt(mean * power) + unit**2 * power
    for share, agrees in ((0.999, True), (1.001, False)):
        check = noted_check(mean + sign * share * allowed, noted_type=noted_type, found_type=found_type)
        assert (check.fault(accumulated(4 * mean), 3) == "") is agrees


@pytest.mark.parametrize(("scale_type", "agrees"), [("bfloat16", True), ("float16", False), ("float32", False)])
def test_a_note_claims_no_coarser_type_than_the_scales_have(scale_type: str, agrees: bool) -> None:
    check = noted_check(0.26, noted_type="bfloat16", scale_type=scale_type)
    assert (check.fault(accumulated(4 * 0.25), 3) == "") is agrees


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize(("scale_type", "roundoff"), [("bfloat16", 2.0**-8), ("float16", 2.0**-11)])
@pytest.mark.parametrize(("products", "moved"), [([4.0, -1.0], 5.0), ([1.0, -1.0] * 150, 80.0), ([1.0] * 300, 300.0)])
def test_rounded_scales_move_an_error_by_few_deviations_or_all_alike(
    products: list[float], moved: float, scale_type: str, roundoff: float, rounded: bool
) -> None:
    """By hand: eight deviations of 300 roundings in [-u, u] are ``8 u sqrt(300 / 3)``."""
    allowed = (2 * roundoff * moved + roundoff**2 * 100) / 4
    for share in (0.999, 1.001):
        check = noted_check(0.25 + share * allowed, scale_type=scale_type)
        check.noted, check.products = msgspec.structs.replace(check.noted, rounded=rounded), np.array(products)
        error = accumulated(4 * 0.25)
        error.power = 100.0
        assert (check.fault(error, 0) == "") is (rounded and share < 1)


def test_equal_scales_are_counted_together() -> None:
    check = noted_check(0.0)
    product = np.arange(12.0).reshape(4, 3)
    check.add_scales(np.float16([[0.5, 1, 0.5], [1, 1, 2]]), product, Blocked(0, 2))
    np.testing.assert_array_equal(check.products, [0 + 3 + 2 + 5, 1 + 4 + 6 + 9 + 7 + 10, 8 + 11])


def test_another_error_is_told_with_both() -> None:
    told = "its mean squared error is 0.25, and was 0.5 when data chose its codes"
    assert noted_check(0.5).fault(accumulated(1.0), 4) == told
    assert "is nan, and was 0.5" in noted_check(0.5).fault(accumulated(math.nan), 4)
    assert noted_check(0.0).fault(accumulated(0.0, elements=0, signal=0.0), 4) == ""


@pytest.mark.parametrize(("rms", "fault"), [(MOST_RMS_STEPS, False), (MOST_RMS_STEPS * 1.001, True), (math.nan, True)])
def test_a_channel_is_no_further_off_than_gptq_can_explain(rms: float, fault: bool) -> None:
    check = replace(noted_check(0.25), rms_steps=rms)
    told = f"an output channel is {rms:.3g} steps off (root mean square), more than GPTQ can explain"
    assert check.fault(accumulated(1.0), 4) == (told if fault else "")


def test_the_bound_is_that_of_the_derivation() -> None:
    """With 5 % damping: ``sqrt(1.05 / 0.05) / 2``."""
    assert pytest.approx(math.sqrt((1 + DAMPING) / (4 * DAMPING))) == MOST_RMS_STEPS
    assert 2.2 < MOST_RMS_STEPS < 2.4


@pytest.mark.parametrize(
    ("granularity", "furthest"),
    [
        (Blocked(0, 2), math.sqrt((9 + 1) / (4 + 4))),
        (Blocked(1, 2), math.sqrt(9 / 4)),
        (PerTensor(), math.sqrt(11 / 10)),
    ],
)
def test_the_furthest_channel_counts(granularity: Granularity, furthest: float) -> None:
    check = noted_check(0.0)
    difference, steps = np.float64([[3, 0], [1, 1]]), np.float64([[2, 0], [2, np.sqrt(2)]])
    check.add(difference / 100, steps, granularity)
    assert check.rms_steps == pytest.approx(furthest / 100)
    check.add(difference, steps, granularity)
    assert check.rms_steps == pytest.approx(furthest)
    check.add(difference / 10, steps, granularity)
    assert check.rms_steps == pytest.approx(furthest)
    check.add(np.full((2, 2), np.nan), steps, granularity)
    assert math.isnan(check.rms_steps)
