"""The ranges of a model with Q/DQ: of its pairs, and of the tensors that have none."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from support.command import qdqtool
from support.networks import mobilenet, unet
from support.paths import ROOT
from support.qdq import constant, text_model
from support.refusals import refused

import qdqtool as qdq
from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model
from qdqtool.numerics import formats
from qdqtool.numerics.affine import fake_quantize
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import PerTensor
from qdqtool.quantization.ranges.model_ranges import model_ranges

HEADER = '<ir_version: 10, opset_import: ["": 21]>'
S = {"s": 0.5, "t": 0.25}


def read(body: str, ends: str = "float[1,4,8,8] x) => (float[1,4,8,8] y", *more: onnx.TensorProto) -> dict[str, float]:
    """The int8 scale of each tensor of a model, 0 for those without a range."""
    found = model_ranges(model(body, ends, *more)).found
    return {name: each.amax / 127 for name, each in found.ranges.items()}


def model(body: str, ends: str = "float[1,4,8,8] x) => (float[1,4,8,8] y", *more: onnx.TensorProto) -> Model:
    scales = [constant(name, value) for name, value in S.items()]
    return text_model(f"{HEADER} g ({ends}) {{ {body} }}", *scales, constant("z", 0, TensorProto.INT8), *more)


def pair(source: str, output: str, scale: str = "s", zero: str = "z", more: str = "") -> str:
    names = f"{scale}, {zero}"
    quantize = f"{output}_q = QuantizeLinear{more} ({source}, {names}) "
    return f"{quantize}{output} = DequantizeLinear{more} ({output}_q, {names}) "


def test_a_scale_of_a_pair_is_kept_bit_for_bit():
    scale = np.float32(0.1)
    found = read(pair("x", "d", "u") + "y = Neg (d)", "float[4] x) => (float[4] y", constant("u", scale))

    assert np.float32(found["x"]) == scale
    assert found["y"] == 0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # Before the pair: its codes are those of the tensor before the operator, too.
        ("c = Neg (x) r = Relu (c)" + pair("r", "d") + "y = Neg (d)", {"c": 0.5, "r": 0.5}),
        ("c = Neg (x) r = Transpose (c)" + pair("r", "d") + "y = Neg (d)", {"c": 0.5}),
        # Another reader of c may need its larger values.
        ("c = Neg (x) r = Relu (c)" + pair("r", "d") + "y = Add (d, c)", {"c": 0, "r": 0.5}),
        # A LeakyRelu and a Neg make other values.
        ("c = Neg (x) r = LeakyRelu (c)" + pair("r", "d") + "y = Neg (d)", {"c": 0, "r": 0.5}),
        # Behind the pair.
        (pair("x", "d") + "m = Relu (d) y = Neg (m)", {"x": 0.5, "m": 0.5, "y": 0}),
        (pair("x", "d") + "m = GlobalAveragePool (d) y = Neg (m)", {"m": 0.5}),
        (pair("x", "d") + "m = Cast <to = 10> (d) n = Neg (m) y = Cast <to = 1> (n)", {"m": 0.5, "n": 0}),
        ("n = Neg (x) m = Cast <to = 10> (n) k = Cast <to = 1> (m)" + pair("k", "d") + "y = Neg (d)", {"n": 0.5}),
        # A second result may have larger values.
        (
            "n = Neg (x) a, b = Split <axis = 3, num_outputs = 2> (n)" + pair("a", "d") + "y = Neg (d)",
            {"a": 0.5, "n": 0},
        ),
        # Joined tensors: their largest range, and the other way round the one of the result.
        (pair("x", "d") + pair("x", "e", "t") + "y = Concat <axis = 0> (d, e)", {"y": 0.5}),
        ("a = Neg (x) b = Exp (x) c = Concat <axis = 0> (a, b)" + pair("c", "d") + "y = Neg (d)", {"a": 0.5, "b": 0.5}),
        (pair("x", "d") + "a = Neg (x) y = Concat <axis = 0> (d, a)", {"a": 0, "y": 0}),
        # Known without a pair.
        (pair("x", "d") + "n = Neg (d) m = Sigmoid (n) y = Neg (m)", {"m": 1 / 127, "n": 0, "y": 0}),
    ],
)
def test_tensors_without_a_pair(body: str, expected: dict[str, float]):
    assert read(body).items() >= expected.items()


@pytest.mark.parametrize(
    "function", [lambda x: np.maximum(x, 0), lambda x: np.clip(x, 0, 6), lambda x: x.reshape(-1, 8).max(1)]
)
@pytest.mark.parametrize("scale", [0.01, 6 / 127, 0.3])
def test_a_range_before_an_operator_gives_the_same_codes(function: Callable[[Array], Array], scale: float):
    """What the ranges before a Relu, a Clip and a MaxPool rely on, also where they clip values."""
    x = np.random.default_rng(3).normal(0, 5, 4096).astype(np.float32)

    def rounded(values: Array) -> Array:
        return fake_quantize(values, np.float32(scale), formats.get("int8"), PerTensor())

    assert rounded(function(rounded(x))).tobytes() == rounded(function(x)).tobytes()


def test_a_result_of_the_model_takes_no_range_of_a_reader():
    body, ends = "c = Neg (x) r = Relu (c)" + pair("r", "y"), "float[4] x) => (float[4] y, float[4] c"
    assert read(body, ends) == {"x": 0, "c": 0, "y": 0.5}


def test_the_names_are_those_of_the_stripped_model():
    body = "c = Relu (x)" + pair("c", "y")
    found = read(body)

    assert found == {"x": 0.5, "y": 0.5}, "the pair made the output of the graph, which the Relu makes now"


@pytest.mark.parametrize(
    ("kind", "zero", "scale", "remark"),
    [
        (TensorProto.UINT8, 128, 0.5, None),
        (TensorProto.INT8, 7, 135 * 0.5 / 127, "asymmetric"),
        (TensorProto.UINT8, 0, 255 * 0.5 / 127, "asymmetric"),
        (TensorProto.FLOAT8E4M3FN, 0, 448 * 0.5 / 127, "not int8"),
        (TensorProto.INT16, 0, 32767 * 0.5 / 127, "not int8"),
    ],
)
def test_what_no_int8_scale_expresses_covers_the_same_range(kind: int, zero: int, scale: float, remark: str | None):
    found = model_ranges(
        model(pair("x", "d", zero="n") + "y = Neg (d)", "float[4] x) => (float[4] y", constant("n", zero, kind))
    )

    # A Q to uint8 with zero point 0 clips negative values: the stripped model has a Relu for it.
    name = "x" if "x" not in found.carried and found.found.ranges["x"].count else "x_Relu"
    assert found.found.ranges[name].amax / 127 == pytest.approx(scale)
    assert (remark is None and not found.found.remarks) or str(found.found.remarks[name]).startswith(str(remark))


def test_several_scales_of_one_tensor_are_named():
    two = model_ranges(model(pair("x", "d") + pair("x", "e", "t") + "y = Add (d, e)"))
    axis = model_ranges(
        model(
            pair("x", "d", "u", "n", " <axis = 0>") + "y = Neg (d)",
            "float[2] x) => (float[2] y",
            constant("u", [0.5, 0.25]),
            constant("n", [0, 0], TensorProto.INT8),
        )
    )

    assert two.found.ranges["x"].amax == axis.found.ranges["x"].amax == 63.5
    assert two.found.remarks["x"] == "with pairs of different ranges: largest range used"
    assert axis.found.remarks["x"] == "with several scales in one pair: largest scale used"


def test_a_scale_that_is_no_number_is_refused():
    with refused(UsageError, "tensor 'x' has the scale inf; a scale must be finite and not negative"):
        read(pair("x", "d", "u") + "y = Neg (d)", "float[4] x) => (float[4] y", constant("u", np.inf))


def activations(path: Path) -> dict[str, bytes]:
    index = ModelIndex.of(load_model(path))
    found = {}
    for each in index.qdq.pairs:
        data, scale = each.quantize.data, each.quantize.scale
        if data is not None and scale is not None and not index.constants.is_constant(data):
            found[data.name] = np.float32(index.constant(scale)).tobytes()
    return found


def round_trip(quantized: Path, folder: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The scales of the activations of a model, and those of the model that is made from its cache again."""
    plain, cache, again = folder / "plain.onnx", folder / "calib.cache", folder / "again.onnx"
    qdq.strip_model(quantized, plain)
    report = qdq.convert_ranges(quantized, cache, "tensorrt-cache")
    assert (report.read_as, report.method) == ("onnx", None)
    assert cache.read_text().startswith("TRT-100300-EntropyCalibration2\n")
    assert len(cache.read_text().splitlines()) == 1 + report.tensors
    qdq.quantize_model(plain, None, again, calibration_cache=cache, high_precision_dtype="fp32")
    return activations(quantized), activations(again)


def test_quantizing_with_the_cache_of_a_model_gives_its_scales(tmp_path: Path):
    sample, quantized = ROOT / "sample_models" / "digits_cnn", tmp_path / "int8.onnx"
    qdq.insert_plan(sample / "model.onnx", sample / "plan.toml", quantized)
    before, after = round_trip(quantized, tmp_path)

    assert len(before.keys() & after.keys()) > 3
    assert {name: after[name] for name in before if name in after} == {n: before[n] for n in before if n in after}


@pytest.mark.slow(reason="quantizes two networks twice")
@pytest.mark.parametrize("network", [mobilenet, unet])
def test_the_cache_of_a_network_gives_its_scales(network: Callable[[], onnx.ModelProto], tmp_path: Path):
    source, quantized = tmp_path / "net.onnx", tmp_path / "int8.onnx"
    onnx.save(network(), source)
    qdq.quantize_model(source, None, quantized, random_calibration=True, samples=2, high_precision_dtype="fp32")
    before, after = round_trip(quantized, tmp_path)

    assert len(before) > 5
    assert after == before


def test_the_command_lists_what_has_no_range(tmp_path: Path):
    onnx.save(model("c = Neg (x) r = Relu (c)" + pair("r", "d") + "y = Neg (d)").proto, tmp_path / "m.onnx")
    done = qdqtool("convert-ranges", tmp_path / "m.onnx", "--to", "tensorrt-cache", "-o", tmp_path / "c")

    assert done.code == 0
    assert "ranges of 2 tensors" in done.out
    assert done.out.count("left out") == 2
    assert "1 tensor without a pair took the range of another tensor or of an operator, such as 'c'" in done.out
    lines = (tmp_path / "c").read_text().splitlines()[1:]
    assert lines == [f"{name}: {struct.pack('>f', 0.5).hex()}" for name in ("c", "r")]


def test_another_file_fills_what_has_no_range(tmp_path: Path):
    source, cache = tmp_path / "m.onnx", tmp_path / "c"
    onnx.save(model("c = Neg (x) r = Relu (c)" + pair("r", "d") + "y = Neg (d)").proto, source)
    np.savez(tmp_path / "more.npz", y=np.float32(127), r=np.float32(1270), other=np.float32(1))
    report = qdq.convert_ranges(source, cache, "tensorrt-cache", fill=tmp_path / "more.npz")

    scales = {"c": 0.5, "r": 0.5, "y": 1.0}
    assert cache.read_text().splitlines()[1:] == [f"{n}: {struct.pack('>f', s).hex()}" for n, s in scales.items()]
    assert (report.unseen, report.tensors) == (("x",), 3)
    assert report.notes[-1] == f"1 tensor without a range took the one in {tmp_path / 'more.npz'}"
    with pytest.raises(UsageError, match="--calibration-method needs ranges of `qdqtool calibrate`"):
        qdq.convert_ranges(source, cache, "tensorrt-cache", "mse", fill=tmp_path / "more.npz")


def test_an_operator_with_bounds_has_its_smallest_value_too():
    found = model_ranges(model(pair("x", "d") + "n = Neg (d) m = Sigmoid (n) y = Tanh (n)")).found.ranges
    assert [(found[name].min, found[name].max) for name in "my"] == [(0, 1), (-1, 1)]


@pytest.mark.parametrize("body", ["y = Sigmoid (x)", pair("w", "d") + "s1 = Sigmoid (x) y = Add (s1, d)"])
def test_a_model_without_quantized_activations_has_nothing_to_write(body: str, tmp_path: Path):
    onnx.save(model(body, "float[1] x) => (float[1] y", constant("w", [1.0])).proto, tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="the model has no Q/DQ pairs of activations"):
        qdq.convert_ranges(tmp_path / "m.onnx", tmp_path / "c", "tensorrt-cache")
