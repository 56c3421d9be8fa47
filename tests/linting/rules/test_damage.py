"""What the faults that load do: each ``silent`` and ``fallback`` rule is here with the damage it warns of.

Kernels are read in the layer dump of TensorRT for RTX, codes in the bytes of its plan, numbers in ONNX Runtime.
"""

import re
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from support.ort_verdict import ort_run
from support.paths import ROOT
from support.trt_verdict import TrtOracle

from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import quantize_model
from qdqtool.linting import rules
from qdqtool.models.graph.model import Model
from qdqtool.models.running.ort_cpu import Session
from qdqtool.samples.request import FileData, RandomData

HEADER = '<ir_version: 10, opset_import: ["": 21]>\n'


def example(code: str, title: str) -> onnx.ModelProto:
    rule = rules.get(code)
    return next(each for each in (*rule.VALID, *rule.INVALID) if each.title == title).model()


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER + text)


def input_types(kernel: str) -> set[str]:
    inputs = kernel[kernel.index("Inputs: [") : kernel.index("Constants: [")]
    return set(re.findall(r"Datatype: (\w+)", inputs))


@pytest.mark.builder
@pytest.mark.parametrize(
    ("code", "title"),
    [
        ("QA201", "a Conv weight on axis 1"),
        ("QA202", "a scale for each input channel of a Conv"),
        ("QL302", "a Conv with a float weight"),
        ("QL302", "a Conv with a float activation"),
        ("QL310", "scales on axis 1"),
        ("QL310", "one scale, which TensorRT for RTX computes in float as well"),
        ("QL316", "7 x 7 in fp8"),
        ("QL313", "the weight is cast from float16 (bits 11878 are 0.1) to float32"),
        ("QL313", "the activation is cast"),
    ],
)
def test_the_layer_runs_in_float(code: str, title: str, oracle: TrtOracle):
    verdict = oracle.judge(example(code, title))

    assert input_types(verdict.convolution("c")) == {"Float"}


@pytest.mark.builder
@pytest.mark.parametrize(
    ("code", "title"), [("QA201", "a Conv weight on axis 0"), ("QL313", "a Cast from float32 to float16 is absorbed")]
)
def test_the_layer_runs_in_int8_when_it_is_right(code: str, title: str, oracle: TrtOracle):
    model = example(code, title)
    model.graph.node[-1].name = "c"

    assert "Int8" in input_types(oracle.judge(model).convolution("c"))


@pytest.mark.parametrize(
    ("code", "title", "x", "expected"),
    [
        ("QP101", "zero behind a Mul, which TensorRT lets pass", [[1, -1, 2, 3]], [[0, 0, 0, 0]]),
        ("QP101", "infinity, which TensorRT lets pass", [[1, -1, 2, 3]], np.full((1, 4), np.nan)),
        ("QP105", "127 times the scale is infinite", [[1e37, -1e30, 0, 1]], [[0, 0, 0, 0]]),
        ("QP106", "different scales", [[1, 2, 3, 4]], [[2, 4, 6, 8]]),
        # 100 + 100 is -56 in int8.
        ("QS007", "an Add of codes", [[10, 1, 0, -10]], [[-5.6, 2, 0, 5.6]]),
        # TensorRT: 5 * 0.3, 6 * 0.4.
        ("QA206", "two blocks of 3 and 1 for ONNX, of 2 and 2 for TensorRT", [[0, 0, 1, 0]], [[5 * 0.1, 6 * 0.2]]),
        ("QS006", "zero point 5", [0, 0], [0.5, -2.5]),
    ],
)
def test_onnx_runtime_computes_other_numbers(code: str, title: str, x: object, expected: object):
    np.testing.assert_allclose(ort_run(example(code, title), np.float32(x)), expected, rtol=1e-6)


@pytest.mark.parametrize("title", ["a Dropout in training mode", "noise that the model draws"])
def test_random_numbers_make_other_outputs_in_every_run(title: str):
    x = {"x": np.ones((1, 64), np.float32)}
    with Session(Model(example("QN503", title))) as session:
        assert not np.array_equal(session.run(x)["y"], session.run(x)["y"])


def test_large_codes_with_a_huge_scale_are_infinite():
    model = parse(
        """agraph (float[1,4] x) => (float[1,4] y) <float one = {1}, float huge = {1e38}, int8 z = {0}> {
            q = QuantizeLinear (x, one, z)
            y = DequantizeLinear (q, huge, z)
        }"""
    )
    y = ort_run(model, np.float32([[127, -127, 2, 0]]))

    np.testing.assert_allclose(y, [[np.inf, -np.inf, 2e38, 0]], rtol=1e-6)


WEIGHT_WITHOUT_TYPE = """
agraph (float[1,4] x) => (float[1,4] y)
<float[4,4] w = {-1, 21, -43, 65, -87, 109, -2, 22, -44, 66, -88, 108, -3, 23, -45, 67}, float s = {1}> {
    q = QuantizeLinear (w, s)
    wd = DequantizeLinear (q, s)
    y = MatMul (x, wd)
}
"""


@pytest.mark.builder
def test_a_quantizer_without_type_is_int8_in_tensorrt_and_uint8_in_onnx(oracle: TrtOracle):
    model = parse(WEIGHT_WITHOUT_TYPE)
    weight = onnx.numpy_helper.to_array(model.graph.initializer[0])

    assert weight.astype(np.int8).tobytes() in oracle.judge(model).plan
    np.testing.assert_array_equal(ort_run(model, np.float32([[1, 0, 0, 0]])), weight[:1].clip(0))


UINT8_WEIGHT = """
agraph (float[1,4] x) => (float[1,4] y)
<float[4,4] w = {1, 21, 43, 65, 87, 109, 2, 22, 44, 66, 88, 108, 3, 23, 200, 255}, float s = {1}, uint8 z = {0}> {
    q = QuantizeLinear (w, s, z)
    wd = DequantizeLinear (q, s, z)
    y = MatMul (x, wd)
}
"""


@pytest.mark.builder
def test_uint8_is_clipped_to_int8_in_tensorrt(oracle: TrtOracle):
    model = parse(UINT8_WEIGHT)
    weight = onnx.numpy_helper.to_array(model.graph.initializer[0])

    assert weight.clip(-128, 127).astype(np.int8).tobytes() in oracle.judge(model).plan
    np.testing.assert_array_equal(ort_run(model, np.float32([[0, 0, 0, 1]])), weight[3:])


@pytest.mark.builder
def test_saturate_is_ignored_by_tensorrt(oracle: TrtOracle):
    model = parse("""
    agraph (float[1,4] x) => (float[1,4] y)
    <float[4,4] w = {1, 1000, 2, 1000, 3, 1000, 4, 1000, 5, 1000, 6, 1000, 7, 1000, 8, 1000}, float s = {1},
     float8e4m3fn z = {0}> {
        q = QuantizeLinear <saturate = 0> (w, s, z)
        wd = DequantizeLinear (q, s, z)
        y = MatMul (x, wd)
    }
    """)
    plan = oracle.judge(model).plan

    assert bytes([0x38, 0x7E, 0x40, 0x7E]) in plan  # 1, 448, 2, 448
    assert np.isnan(ort_run(model, np.float32([[1, 0, 0, 0]]))[0, 1])


@pytest.mark.builder
def test_an_input_without_shape_is_a_scalar_for_tensorrt(oracle: TrtOracle):
    layers = oracle.judge(example("QM611", "no shape")).layers

    assert re.search(r"Name: x, IOMode: Input, DataType: Float, Dimensions: \[\]", layers)


@pytest.mark.builder
def test_a_scale_that_a_caller_could_give_is_frozen_by_tensorrt(oracle: TrtOracle):
    layers = oracle.judge(example("QM608", "a scale with a default")).layers

    assert layers.count("IOMode: Input") == 1


@pytest.mark.builder
@pytest.mark.parametrize(
    ("code", "title"),
    [
        ("QA206", "two blocks of 3 and 1 for ONNX, of 2 and 2 for TensorRT"),
        ("QP102", "fp8 with zero point 1 (bits 56)"),
        ("QP104", "computed from the data"),
        ("QS003", "an int32 zero point, which TensorRT reads as int8"),
        ("QS003", "a DQ of int8 codes with a uint8 zero point"),
        ("QT407", "a domain that nobody knows"),
    ],
)
def test_tensorrt_builds_it_all_the_same(code: str, title: str, oracle: TrtOracle):
    assert oracle.judge(example(code, title)).accepted


@pytest.mark.builder
def test_an_opset_that_nobody_has_defined_passes_the_checker_and_the_builder(oracle: TrtOracle):
    model = example("QM614", "opset 99")

    onnx.checker.check_model(model, full_check=True)

    assert oracle.judge(model).accepted


def test_a_quantized_index_names_another_row():
    y = ort_run(example("QL306", "indices, rounded to multiples of 0.3"), np.float32([1, 2, 3]))

    np.testing.assert_array_equal(y, [0, 20, 30])  # 1 becomes 0.9, and 0.9 is cast to 0


@pytest.mark.builder
def test_a_pair_in_front_of_relu_rounds_once_more(oracle: TrtOracle):
    early = oracle.judge(example("QL305", "the pair stands in front of Relu")).layers

    assert re.search(r"Name: \w*RounCastCastMulRelu\w*", early)  # quantized, dequantized, then Relu


@pytest.mark.slow(reason="calibrates on noise and on samples")
def test_random_calibration_loses_what_real_samples_keep(tmp_path: Path):
    """QN501: it costs more than a bit, which is 20 log10(2) dB."""
    sample = ROOT / "sample_models" / "digits_cnn"
    sqnr = {}
    for name, data in {"real": FileData(path=sample / "calibration.npz"), "random": RandomData(seed=0)}.items():
        quantize_model(sample / "model.onnx", data, tmp_path / f"{name}.onnx")
        report = check_model(tmp_path / f"{name}.onnx", baseline=sample / "model.onnx", data=sample / "test.npz")
        sqnr[name] = report.outputs[0].sqnr_db
    assert sqnr["random"] < sqnr["real"] - 20 * np.log10(2)


def kernels(layers: str) -> list[tuple[str, set[str], set[str]]]:
    """Kind, types of inputs, and types of constants of each kernel in a layer dump."""
    found = []
    for line in layers.splitlines():
        kind = re.search(r"LayerType: (\w+)", line)
        if kind is not None and "Constants: [" in line:
            constants = line[line.index("Constants: [") : line.index("Outputs: [")]
            found.append((kind[1], input_types(line), set(re.findall(r"Datatype: (\w+)", constants))))
    return found


@pytest.mark.builder
def test_pairs_in_front_of_the_attention_operator_run_apart(oracle: TrtOracle):
    (rounding,) = rules.get("QL314").INVALID
    (plain,) = rules.get("QL314").VALID
    attention = ("kgen", {"Half"}, set())

    for model in (rounding.model(), plain.model()):
        assert attention in kernels(oracle.judge(model).layers)
    assert not any(inputs & {"FP8"} for _, inputs, _ in kernels(oracle.judge(rounding.model()).layers))


@pytest.mark.builder
def test_attention_is_one_kernel_where_the_rule_is_content(oracle: TrtOracle):
    others = [each for each in rules.get("QL307").INVALID if each.targets == ("tensorrt-rtx",)]
    fused = {
        "fp8 in float16 (bits 11878 are 0.1), which is fused": "FP8",
        "int8 in float16 with a pair on the result, which is fused": "Int8",
    }

    for title, codes in fused.items():
        assert ("kgen", {codes}, set()) in kernels(oracle.judge(example("QL307", title)).layers), title
    assert len(others) == 3
    for each in others:
        assert [kind for kind, _, _ in kernels(oracle.judge(each.model()).layers)].count("gemm") == 2, each.title


def test_precision_is_not_read_by_onnx_runtime():
    """1.0501 / 0.1 is 10.501 in float32 and 10.5 in float16, which is rounded to the even 10."""
    y = ort_run(example("QP112", "float16 beside a float32 scale"), np.float32([[1.0501, 0, 0, 0]]))

    assert np.rint(np.float16(1.0501) / np.float16(0.1)) == 10
    assert y[0, 0] == np.float32(11) * np.float32(0.1)
