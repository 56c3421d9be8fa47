"""The rule on operands' shapes refuses what ONNX Runtime refuses, and only that."""

from collections import Counter
from itertools import product

import onnx
import pytest
from support.one_rule import findings, messages, parsed
from support.ort_verdict import ort_refuses

MISFITS = [
    ("Conv", "float[1,3,8,8] x, float[4,2,3,3] w", "(x, w)", "a weight of shape [4, 2, 3, 3]; expected [4, 3, 3, 3]"),
    ("Conv", "float[1,3,8,8] x, float[4,3,3,3] w, float[3] b", "(x, w, b)", "a bias of shape [3]; expected [4]"),
    ("Conv", "float[1,3,8,8] x, float[4,3,3,3] w, float[1] b", "(x, w, b)", "a bias of shape [1]; expected [4]"),
    ("Conv", "float[1,3,8,8] x, float[4,3,3,3] w, float[1,4] b", "(x, w, b)", "a bias of shape [1, 4]; expected [4]"),
    ("Conv", "float[1,3,8,8] x, float[4,3,3,3] w, float b", "(x, w, b)", "a bias of shape []; expected [4]"),
    (
        "Conv",
        "float[1,3,8,8] x, float[4,3,3,3] w",
        "<kernel_shape = [5, 5]> (x, w)",
        "a weight of shape [4, 3, 3, 3]; expected [4, 3, 5, 5]",
    ),
    (
        "Conv",
        "float[1,4,8,8] x, float[4,3,3,3] w",
        "<group = 2> (x, w)",
        "a weight of shape [4, 3, 3, 3]; expected [4, 2, 3, 3]",
    ),
    (
        "Conv",
        "float[1,4,8,8] x, float[5,2,3,3] w",
        "<group = 2> (x, w)",
        "5 output channels; expected a number that 2 groups divide",
    ),
    (
        "Conv",
        "float[1,3,8,8] x, float[4,1,3,3] w",
        "<group = 2> (x, w)",
        "3 input channels; expected a number that 2 groups divide",
    ),
    ("Conv", "float[1,4,8,8] x, float[4,4,3,3] w", "<group = 0> (x, w)", "0 groups; expected 1 or more"),
    (
        "ConvTranspose",
        "float[1,3,8,8] x, float[2,4,3,3] w",
        "(x, w)",
        "a weight of shape [2, 4, 3, 3]; expected [3, 4, 3, 3]",
    ),
    (
        "ConvTranspose",
        "float[1,3,8,8] x, float[3,4,3,3] w, float[3] b",
        "(x, w, b)",
        "a bias of shape [3]; expected [4]",
    ),
    (
        "ConvTranspose",
        "float[1,4,8,8] x, float[4,3,3,3] w, float[3] b",
        "<group = 2> (x, w, b)",
        "a bias of shape [3]; expected [6]",
    ),
    (
        "ConvTranspose",
        "float[1,3,8,8] x, float[3,4,3,3] w",
        "<kernel_shape = [2, 2]> (x, w)",
        "a weight of shape [3, 4, 3, 3]; expected [3, 4, 2, 2]",
    ),
    (
        "InstanceNormalization",
        "float[1,3,8,8] x, float[4] s, float[3] b",
        "(x, s, b)",
        "a scale of shape [4]; expected [3]",
    ),
    (
        "InstanceNormalization",
        "float[1,3,8,8] x, float[3] s, float[1] b",
        "(x, s, b)",
        "a bias of shape [1]; expected [3]",
    ),
    (
        "GroupNormalization",
        "float[1,4,3] x, float[2] s, float[4] b",
        "<num_groups = 2> (x, s, b)",
        "a scale of shape [2]; expected [4]",
    ),
    (
        "GroupNormalization",
        "float[1,4,3] x, float[4] s, float[2] b",
        "<num_groups = 2> (x, s, b)",
        "a bias of shape [2]; expected [4]",
    ),
    (
        "GroupNormalization",
        "float[1,4,3] x, float[4] s, float[4] b",
        "<num_groups = 3> (x, s, b)",
        "4 channels; expected a number that 3 groups divide",
    ),
    ("LayerNormalization", "float[2,3] x, float[3] s", "<axis = 2> (x, s)", "axis 2; expected -2 to 1"),
    (
        "LayerNormalization",
        "float[2,3] x, float[4] s",
        "(x, s)",
        "a scale of shape [4]; expected one that broadcasts to [2, 3]",
    ),
    (
        "LayerNormalization",
        "float[2,3] x, float[3] s, float[2] b",
        "(x, s, b)",
        "a bias of shape [2]; expected one that broadcasts to [2, 3]",
    ),
    ("PRelu", "float[2,3] x, float[2] s", "(x, s)", "a slope of shape [2]; expected one that broadcasts to [2, 3]"),
    (
        "Gemm",
        "float[2,3] x, float[3,5] w, float[4] b",
        "(x, w, b)",
        "a bias of shape [4]; expected one that broadcasts to [2, 5]",
    ),
    (
        "Gemm",
        "float[3,2] x, float[5,3] w, float[3,5] b",
        "<transA = 1, transB = 1> (x, w, b)",
        "a bias of shape [3, 5]; expected one that broadcasts to [2, 5]",
    ),
    (
        "LSTM",
        "float[5,1,3] x, float[1,16,2] w, float[1,16,4] r",
        "<hidden_size = 4> (x, w, r)",
        "a weight of shape [1, 16, 2]; expected [1, 16, 3]",
    ),
    (
        "LSTM",
        "float[5,1,3] x, float[1,16,3] w, float[1,12,4] r",
        "(x, w, r)",
        "a recurrence weight of shape [1, 12, 4]; expected [1, 16, 4]",
    ),
    (
        "GRU",
        "float[5,1,3] x, float[1,12,3] w, float[1,12,4] r, float[1,12] b",
        "<hidden_size = 4> (x, w, r, b)",
        "a bias of shape [1, 12]; expected [1, 24]",
    ),
    (
        "RNN",
        "float[5,1,3] x, float[1,4,3] w, float[1,4,4] r",
        '<direction = "bidirectional", hidden_size = 4> (x, w, r)',
        "a weight of shape [1, 4, 3]; expected [2, 4, 3]",
    ),
]

FITS = [
    ("Conv", "float[1,4,8,8] x, float[6,2,3,3] w, float[6] b", "<group = 2, kernel_shape = [3, 3]> (x, w, b)"),
    ("ConvTranspose", "float[1,4,8,8] x, float[4,3,3,3] w, float[6] b", "<group = 2, kernel_shape = [3, 3]> (x, w, b)"),
    ("InstanceNormalization", "float[1,3,8,8] x, float[3] s, float[3] b", "(x, s, b)"),
    ("GroupNormalization", "float[1,4,3] x, float[4] s, float[4] b", "<num_groups = 2> (x, s, b)"),
    ("LayerNormalization", "float[2,3] x, float[3] s, float[3] b", "<axis = -1> (x, s, b)"),
    ("LayerNormalization", "float[2,3] x, float[2,3] s, float[2,3] b", "<axis = 0> (x, s, b)"),
    ("LayerNormalization", "float[2,3] x, float[3] s, float[1] b", "<axis = -2> (x, s, b)"),
    ("PRelu", "float[2,3] x, float[2,1] s", "(x, s)"),
    ("PRelu", "float[2,3] x, float s", "(x, s)"),
    ("Gemm", "float[2,3] x, float[3,5] w, float[2,1] b", "(x, w, b)"),
    ("Gemm", "float[3,2] x, float[5,3] w, float[2,5] b", "<transA = 1, transB = 1> (x, w, b)"),
    ("Gemm", "float[2,3] x, float[3,5] w, float b", "(x, w, b)"),
    ("LSTM", "float[5,1,3] x, float[1,16,3] w, float[1,16,4] r, float[1,32] b", "<hidden_size = 4> (x, w, r, b)"),
    (
        "GRU",
        "float[5,1,3] x, float[2,12,3] w, float[2,12,4] r, float[2,24] b",
        '<direction = "bidirectional", hidden_size = 4> (x, w, r, b)',
    ),
    ("RNN", "float[5,1,3] x, float[1,4,3] w, float[1,4,4] r", '<direction = "reverse", hidden_size = 4> (x, w, r)'),
]


def model_of(op_type: str, inputs: str, rest: str, opset: int = 21) -> onnx.ModelProto:
    return unshaped(parsed(f"agraph ({inputs}) => (float y) {{ y = {op_type} {rest} }}", opset))


def unshaped(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with an output that declares no shape."""
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def said_of(model: onnx.ModelProto) -> list[str]:
    """What the rule says for every target: the message, and what was expected."""
    said = {target: findings("QS014", model, target) for target in ("onnx", "ort-cpu", "tensorrt")}
    found = {target: [f"{each.message}; expected {each.expected}" for each in said[target]] for target in said}
    assert found["onnx"] == found["ort-cpu"] == found["tensorrt"]
    return found["onnx"]


@pytest.mark.parametrize(("op_type", "inputs", "rest", "misfit"), MISFITS)
def test_a_misfit_is_one_of_onnx_runtime(op_type, inputs, rest, misfit):
    model = model_of(op_type, inputs, rest)
    assert said_of(model) == [f"{op_type} has {misfit}"]
    assert ort_refuses(model) is not None


@pytest.mark.parametrize(("op_type", "inputs", "rest"), FITS)
def test_what_onnx_runtime_runs_is_no_misfit(op_type, inputs, rest):
    model = model_of(op_type, inputs, rest)
    assert said_of(model) == []
    assert ort_refuses(model) is None


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_channels_and_groups_are_those_of_onnx_runtime(op_type):
    for channels, first, second, group, length in product((2, 3, 4), (2, 3, 4), (1, 2), (1, 2), (2, 4)):
        inputs = f"float[1,{channels},4,4] x, float[{first},{second},3,3] w, float[{length}] b"
        model = model_of(op_type, inputs, f"<group = {group}> (x, w, b)")
        # Inference finds groups that do not divide the channels of a ConvTranspose.
        said = said_of(model) or messages("QS013", model, "ort-cpu")
        assert bool(said) == (ort_refuses(model) is not None), (inputs, group, said)


def test_a_kernel_fits_where_onnx_runtime_makes_an_output():
    seen = Counter[bool]()
    for extent, kernel, before, behind, dilation, stride in product((1, 4), (2, 3, 4), (0, 1), (0, 2), (1, 2), (1, 3)):
        more = f"pads = [{before}, {behind}], dilations = [{dilation}], strides = [{stride}]"
        model = model_of("Conv", f"float[1,3,{extent}] x, float[4,3,{kernel}] w", f"<{more}> (x, w)")
        said = said_of(model)
        assert bool(said) == (ort_refuses(model) is not None), (extent, kernel, more, said)
        seen[bool(said)] += 1
    assert seen[True] > 30
    assert seen[False] > 30


@pytest.mark.parametrize(
    ("inputs", "rest", "misfit"),
    [
        (
            "float[1,3,2,8] x, float[4,3,3,3] w",
            "(x, w)",
            "a kernel that spans 3 elements of axis 2; expected at most 2",
        ),
        (
            "float[1,3,8,2] x, float[4,3,3,3] w",
            "(x, w)",
            "a kernel that spans 3 elements of axis 3; expected at most 2",
        ),
        (
            "float[1,3,4,4] x, float[4,3,3,3] w",
            '<auto_pad = "VALID", dilations = [1, 2]> (x, w)',
            "a kernel that spans 5 elements of axis 3; expected at most 4",
        ),
        ("float[1,3,2,2] x, float[4,3,3,3] w", '<auto_pad = "SAME_UPPER"> (x, w)', None),
        ("float[1,3,2,2] x, float[4,3,3,3] w", '<auto_pad = "SAME_LOWER"> (x, w)', None),
        ("float[1,3,H,W] x, float[4,3,3,3] w", "(x, w)", None),
        ("float[1,3,2,2] x, float[4,3,h,w] w", "(x, w)", None),
    ],
)
def test_a_kernel_that_is_too_large(inputs, rest, misfit):
    model = model_of("Conv", inputs, rest)
    assert said_of(model) == ([] if misfit is None else [f"Conv has {misfit}, the extent of the padded input"])
    if "H" not in inputs and "h" not in inputs:
        assert (ort_refuses(model) is None) == (misfit is None)


@pytest.mark.parametrize(
    ("inputs", "rest"),
    [
        ("float[1,C,8,8] x, float[4,2,3,3] w", "(x, w)"),
        ("float[1,3,8,8] x, float[4,c,3,3] w", "(x, w)"),
        ("float[1,3,8,8] x, float[M,3,3,3] w, float[5] b", "(x, w, b)"),
        ("float[1,3,8,8] x, float[4,3,3,3] w, float[L] b", "(x, w, b)"),
        ("float[1,4,8,8] x, float[M,2,h,w] w", "<group = 2, kernel_shape = [3, 3]> (x, w)"),
    ],
)
def test_extents_that_are_open_may_fit(inputs, rest):
    assert said_of(model_of("Conv", inputs, rest)) == []


@pytest.mark.parametrize(
    ("inputs", "rest", "misfit"),
    [
        (
            "float[1,C,8,8] x, float[5,2,3,3] w",
            "<group = 2> (x, w)",
            "5 output channels; expected a number that 2 groups divide",
        ),
        ("float[1,3,8,8] x, float[M,2,3,3] w", "(x, w)", "a weight of shape [M, 2, 3, 3]; expected [?, 3, 3, 3]"),
    ],
)
def test_what_is_known_of_an_open_shape_is_compared(inputs, rest, misfit):
    assert said_of(model_of("Conv", inputs, rest)) == [f"Conv has {misfit}"]


def test_a_group_normalization_before_opset_21_scales_groups():
    rest = "<num_groups = 2> (x, s, b)"
    fits, misfits = (f"float[1,4,3] x, float[{length}] s, float[{length}] b" for length in (2, 4))
    assert said_of(model_of("GroupNormalization", fits, rest, 20)) == []
    assert said_of(model_of("GroupNormalization", misfits, rest, 20)) == [
        "GroupNormalization has a scale of shape [4]; expected [2]"
    ]


@pytest.mark.parametrize(("data", "slope"), [("2,3", "1,2,3"), ("1,3", "2,3"), ("2,1", "3")])
def test_onnx_runtime_alone_broadcasts_data_to_a_slope(data, slope):
    model = model_of("PRelu", f"float[{data}] x, float[{slope}] s", "(x, s)")
    for target in ("onnx", "tensorrt"):
        assert len(messages("QS014", model, target)) == 1
    assert messages("QS014", model, "ort-cpu") == []
    assert ort_refuses(model) is None


@pytest.mark.parametrize(
    ("opset", "op_type", "inputs", "rest"),
    [
        (6, "PRelu", "float[1,3,2] x, float[3] s", "(x, s)"),
        (6, "Gemm", "float[2,3] x, float[3,5] w, float[2] b", "<broadcast = 1> (x, w, b)"),
    ],
)
def test_the_broadcast_of_opset_6_is_not_judged(opset, op_type, inputs, rest):
    assert said_of(model_of(op_type, inputs, rest, opset)) == []


@pytest.mark.parametrize(
    ("shape", "misfit"), [("4, 2", "8 elements in [4, 2]; expected 6, as [2, 3] has"), ("3, 2", None)]
)
def test_a_reshape_keeps_the_number_of_elements(shape, misfit):
    model = unshaped(parsed(f"agraph (float[2,3] x) => (float y) <int64[2] s = {{{shape}}}> {{ y = Reshape (x, s) }}"))
    assert said_of(model) == ([] if misfit is None else [f"Reshape has {misfit}"])
    assert (ort_refuses(model) is None) == (misfit is None)


@pytest.mark.parametrize(
    "text",
    [
        "agraph (float[2,N] x) => (float y) <int64[2] s = {4, 2}> { y = Reshape (x, s) }",
        "agraph (float[2,3] x, int64[2] s) => (float[4,2] y) { y = Reshape (x, s) }",
        "agraph (float[2,3] x) => (float y) { y = Reshape (x, s) }",
    ],
)
def test_a_reshape_that_is_not_known_is_not_judged(text):
    model = parsed(text)
    if "=> (float y)" in text:
        unshaped(model)
    assert said_of(model) == []


def test_nothing_is_said_where_declared_shapes_contradict():
    text = """
    agraph (float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,6,6] y) <float[1,5,8,8] r> {
        r = Relu (x)
        y = Conv (r, w)
    }
    """
    model = parsed(text)
    assert said_of(model) == []
    assert messages("QS013", model, "onnx") != []
    assert ort_refuses(model) is None


def test_the_misfit_names_its_tensor():
    (finding,) = findings("QS014", model_of("Conv", "float[1,3,8,8] x, float[4,3,3,3] w, float[3] b", "(x, w, b)"))
    assert (finding.tensor, finding.found, finding.expected) == ("b", "a bias of shape [3]", "[4]")
