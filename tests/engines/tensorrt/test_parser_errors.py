"""Messages of TensorRT in plain words. The messages are what TensorRT for RTX 1.7.1 printed, cut at the CUDA noise."""

import time

import pytest

from qdqtool.engines.tensorrt.parser_errors import (
    builder_refusals,
    parser_refusal,
    parser_refusals,
    strip_noise,
    translate,
)

CUDA = (
    "\n[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (In catchCudaError at "
    "/_src/common/dispatch/checkMacros.cpp:250 (cudaError 35: CUDA driver version is insufficient))"
)
CASES = {
    "zero point": (
        "Assertion failed: shiftIsAllZeros(zeroPoint): Non-zero zero point is not supported. Please set kENABLE ...",
        "its zero point is not 0",
    ),
    "int32 bias": (
        (
            "Invalid Node - b\nITensor::getDimensions: Error Code 4: API Usage Error (b: input has type Int32 but must "
            f"have type FP8, FP4, Int4, Int8, or UInt8. In checkType at /_src/optimizer/common/nodeBase.cpp:456){CUDA}"
        ),
        "it dequantizes int32 data",
    ),
    "scale length": (
        (
            "Assertion failed: K == scaleSize: The number of scales is not equal to the number of output channels. "
            "Number of output channels = 16, number of scales = 7."
        ),
        "it has 7 scales for an axis of length 16",
    ),
    "initializer type": (
        (
            "Failed to import initializer: In node -1 with name:  and operator:  (importInitializers): "
            "UNSUPPORTED_NODE: Assertion failed: ctx->getWeightsContext().convertOnnxWeights(initializer, &weights): "
            "Failed to import initializer: wz"
        ),
        "initializer 'wz' has a type that TensorRT does not support",
    ),
    "float types": (
        (
            "Invalid Node - c\nITensor::getDimensions: Error Code 4: API Usage Error (c: IConvolutionLayer `input` and "
            "`kernel` must be of same type. `input` type is Half but `kernel` is of type Float. In validateTypes at "
            f"/_src/optimizer/common/nodes/convolutionNode.cpp:88){CUDA}"
        ),
        "its input is float16 and its weight is float32; both must have one type",
    ),
    "target": (
        (
            "IBuilder::buildSerializedNetwork: Error Code 1: Myelin ([pass.cpp:1500: run_passes] Cannot compile for "
            "target(s) sm80, sm86, because the model contains HW-specific datatypes: fp8_e4m3. In compile at /_src/x:2)"
        ),
        "the model has type float8e4m3fn, which sm80, sm86 cannot compute",
    ),
    "constant": (
        (
            "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Quantized constant (w) is only allowed "
            "before DQ or PLUGIN_V2 or kPLUGIN_V3 node. In matchQuantizedConstantPluginOrDQ at /_src/q.cpp:4327)"
        ),
        "the quantized constant 'w' does not feed a DequantizeLinear directly",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_known_messages_in_plain_words(case):
    message, reason = CASES[case]
    refusal = translate(message)
    assert refusal.reason.startswith(reason)
    assert "cuda" not in (refusal.reason + refusal.message).lower()
    assert "/_src/" not in refusal.message


def test_an_unknown_message_keeps_its_own_words_without_noise():
    text = "IBuilder::x: Error Code 4: API Usage Error (The moon is full. In wane at /_src/moon.cpp:3)" + CUDA
    assert strip_noise(text) == "The moon is full"
    assert translate(text).reason == "the moon is full"


def test_noise_alone_is_nothing():
    assert strip_noise(CUDA) == ""
    (refusal,) = builder_refusals([("ERROR", CUDA)], None)
    assert refusal.reason == "the builder gave no reason"


def error(message, **facts):
    return {"message": message, "function": "", "node": 3, "name": "n", "operator": "Op", "calls": [], **facts}


def test_an_operator_that_is_refused_without_words():
    assert parser_refusal(error("false", operator="QLinearConv")).reason == "operator QLinearConv is not supported"


def test_the_call_path_of_a_node_in_a_function():
    refusal = parser_refusal(error("false", calls=["outer (f)", "inner (g)"]))
    assert refusal.reason.endswith("in the call 'inner (g)' in 'outer (f)'")


def test_a_node_without_name_is_called_by_its_number():
    assert parser_refusal(error("false", name="")).node == "number 3"


@pytest.mark.parametrize(
    ("function", "operator"), [("importScatterElements", "ScatterElements"), ("importInput", None), ("f", None)]
)
def test_the_operator_is_read_off_the_function_that_imports_it(function, operator):
    refusal = parser_refusal(error("Unsupported reduction type", function=function, operator="", name="", node=-1))
    assert refusal.op_type == operator


def test_further_refusals_that_nobody_understands_may_be_consequences_and_are_left_out():
    known, unknown = error(CASES["zero point"][0], name="a"), error("Something about a missing shape", name="b")
    assert [refusal.node for refusal in parser_refusals([error("false")], [known, unknown])] == ["n", "a"]


def test_builder_errors_come_once_each():
    message = CASES["constant"][0]
    assert len(builder_refusals([("ERROR", message), ("WARNING", "w"), ("ERROR", message)], None)) == 1


def test_the_layer_that_a_builder_error_names():
    text = "IBuilder::b: Error Code 4: API Usage Error (IScaleLayer w_DQ: w_DQ: odd volume. In f at /a:1)"
    (refusal,) = builder_refusals([("ERROR", text)], None)
    assert refusal.node == "w_DQ"


@pytest.mark.parametrize("name", ["n" * 200_000, "n " * 100_000, "a.b::c(" * 30_000])
def test_the_time_of_a_translation_does_not_grow_with_the_square_of_a_name(name):
    begun = time.process_time()
    refusal = translate(f"Error Code 4: API Usage Error ({name} has `zero_point` which is not an initializer. {name})")
    translate(" " * 50_000 + "!")
    assert time.process_time() - begun < 1
    assert len(refusal.reason + refusal.message) < 10_000


def test_a_message_about_a_long_name_is_explained_all_the_same():
    refusal = translate(f"{'n' * 50_000} has `zero_point` which is not an initializer")
    assert refusal.explained
    assert refusal.node == f"{'n' * 256}…{'n' * 256}"
