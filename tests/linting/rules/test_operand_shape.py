"""The rule on operands' shapes refuses what ONNX Runtime refuses, and only that."""

from collections import Counter
from itertools import product

import onnx
import pytest
from support.one_rule import findings, messages, parsed
from support.ort_verdict import ort_refuses

MISFITS = [
    ("Conv", "x[1,3,8,8] w[4,2,3,3]", "", "a weight of shape [4, 2, 3, 3]; expected [4, 3, 3, 3]"),
    ("Conv", "x[1,3,8,8] w[4,3,3,3] b[3]", "", "a bias of shape [3]; expected [4]"),
    ("Conv", "x[1,3,8,8] w[4,3,3,3] b[1]", "", "a bias of shape [1]; expected [4]"),
    ("Conv", "x[1,3,8,8] w[4,3,3,3] b[1,4]", "", "a bias of shape [1, 4]; expected [4]"),
    ("Conv", "x[1,3,8,8] w[4,3,3,3] b", "", "a bias of shape []; expected [4]"),
    ("Conv", "x[1,3,8,8] w[4,3,3,3]", "kernel_shape = [5, 5]", "a weight of shape [4, 3, 3, 3]; expected [4, 3, 5, 5]"),
    ("Conv", "x[1,4,8,8] w[4,3,3,3]", "group = 2", "a weight of shape [4, 3, 3, 3]; expected [4, 2, 3, 3]"),
    ("Conv", "x[1,4,8,8] w[5,2,3,3]", "group = 2", "5 output channels; expected a multiple of 2, the number of groups"),
    ("Conv", "x[1,3,8,8] w[4,1,3,3]", "group = 2", "3 input channels; expected a multiple of 2, the number of groups"),
    ("Conv", "x[1,4,8,8] w[4,4,3,3]", "group = 0", "0 groups; expected 1 or more"),
    ("ConvTranspose", "x[1,3,8,8] w[2,4,3,3]", "", "a weight of shape [2, 4, 3, 3]; expected [3, 4, 3, 3]"),
    ("ConvTranspose", "x[1,3,8,8] w[3,4,3,3] b[3]", "", "a bias of shape [3]; expected [4]"),
    ("ConvTranspose", "x[1,4,8,8] w[4,3,3,3] b[3]", "group = 2", "a bias of shape [3]; expected [6]"),
    (
        "ConvTranspose",
        "x[1,3,8,8] w[3,4,3,3]",
        "kernel_shape = [2, 2]",
        "a weight of shape [3, 4, 3, 3]; expected [3, 4, 2, 2]",
    ),
    ("InstanceNormalization", "x[1,3,8,8] s[4] b[3]", "", "a scale of shape [4]; expected [3]"),
    ("InstanceNormalization", "x[1,3,8,8] s[3] b[1]", "", "a bias of shape [1]; expected [3]"),
    ("GroupNormalization", "x[1,4,3] s[2] b[4]", "num_groups = 2", "a scale of shape [2]; expected [4]"),
    ("GroupNormalization", "x[1,4,3] s[4] b[2]", "num_groups = 2", "a bias of shape [2]; expected [4]"),
    (
        "GroupNormalization",
        "x[1,4,3] s[4] b[4]",
        "num_groups = 3",
        "4 channels; expected a multiple of 3, the number of groups",
    ),
    ("LayerNormalization", "x[2,3] s[3]", "axis = 2", "axis 2; expected -2 to 1"),
    ("LayerNormalization", "x[2,3] s[4]", "", "a scale of shape [4]; expected one that broadcasts to [2, 3]"),
    ("LayerNormalization", "x[2,3] s[3] b[2]", "", "a bias of shape [2]; expected one that broadcasts to [2, 3]"),
    ("PRelu", "x[2,3] s[2]", "", "a slope of shape [2]; expected one that broadcasts to [2, 3]"),
    ("Gemm", "x[2,3] w[3,5] b[4]", "", "a bias of shape [4]; expected one that broadcasts to [2, 5]"),
    (
        "Gemm",
        "x[3,2] w[5,3] b[3,5]",
        "transA = 1, transB = 1",
        "a bias of shape [3, 5]; expected one that broadcasts to [2, 5]",
    ),
    ("LSTM", "x[5,1,3] w[1,16,2] r[1,16,4]", "hidden_size = 4", "a weight of shape [1, 16, 2]; expected [1, 16, 3]"),
    ("LSTM", "x[5,1,3] w[1,16,3] r[1,12,4]", "", "a recurrence weight of shape [1, 12, 4]; expected [1, 16, 4]"),
    ("GRU", "x[5,1,3] w[1,12,3] r[1,12,4] b[1,12]", "hidden_size = 4", "a bias of shape [1, 12]; expected [1, 24]"),
    (
        "RNN",
        "x[5,1,3] w[1,4,3] r[1,4,4]",
        'direction = "bidirectional", hidden_size = 4',
        "a weight of shape [1, 4, 3]; expected [2, 4, 3]",
    ),
]

FITS = [
    ("Conv", "x[1,4,8,8] w[6,2,3,3] b[6]", "group = 2, kernel_shape = [3, 3]"),
    ("ConvTranspose", "x[1,4,8,8] w[4,3,3,3] b[6]", "group = 2, kernel_shape = [3, 3]"),
    ("InstanceNormalization", "x[1,3,8,8] s[3] b[3]", ""),
    ("GroupNormalization", "x[1,4,3] s[4] b[4]", "num_groups = 2"),
    ("LayerNormalization", "x[2,3] s[3] b[3]", "axis = -1"),
    ("LayerNormalization", "x[2,3] s[2,3] b[2,3]", "axis = 0"),
    ("LayerNormalization", "x[2,3] s[3] b[1]", "axis = -2"),
    ("PRelu", "x[2,3] s[2,1]", ""),
    ("PRelu", "x[2,3] s", ""),
    ("Gemm", "x[2,3] w[3,5] b[2,1]", ""),
    ("Gemm", "x[3,2] w[5,3] b[2,5]", "transA = 1, transB = 1"),
    ("Gemm", "x[2,3] w[3,5] b", ""),
    ("LSTM", "x[5,1,3] w[1,16,3] r[1,16,4] b[1,32]", "hidden_size = 4"),
    ("GRU", "x[5,1,3] w[2,12,3] r[2,12,4] b[2,24]", 'direction = "bidirectional", hidden_size = 4'),
    ("RNN", "x[5,1,3] w[1,4,3] r[1,4,4]", 'direction = "reverse", hidden_size = 4'),
]


def model_of(op_type: str, operands: str, attributes: str = "", opset: int = 21) -> onnx.ModelProto:
    """One node; its operands are names with shapes, such as ``x[2,3] b``."""
    names = [each.partition("[")[0] for each in operands.split()]
    inputs = ", ".join(
        f"float{each.removeprefix(name)} {name}" for each, name in zip(operands.split(), names, strict=True)
    )
    given = f"<{attributes}>" if attributes else ""
    return unshaped(parsed(f"agraph ({inputs}) => (float y) {{ y = {op_type} {given} ({', '.join(names)}) }}", opset))


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


@pytest.mark.parametrize(("op_type", "operands", "attributes", "misfit"), MISFITS)
def test_a_misfit_is_one_of_onnx_runtime(op_type, operands, attributes, misfit):
    model = model_of(op_type, operands, attributes)
    assert said_of(model) == [f"{op_type} has {misfit}"]
    assert ort_refuses(model) is not None


@pytest.mark.parametrize(("op_type", "operands", "attributes"), FITS)
def test_what_onnx_runtime_runs_is_no_misfit(op_type, operands, attributes):
    model = model_of(op_type, operands, attributes)
    assert said_of(model) == []
    assert ort_refuses(model) is None


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_channels_and_groups_are_those_of_onnx_runtime(op_type):
    for channels, first, second, group, length in product((2, 3, 4), (2, 3, 4), (1, 2), (1, 2), (2, 4)):
        operands = f"x[1,{channels},4,4] w[{first},{second},3,3] b[{length}]"
        model = model_of(op_type, operands, f"group = {group}")
        # Inference finds groups that do not divide the channels of a ConvTranspose.
        said = said_of(model) or messages("QS013", model, "ort-cpu")
        assert bool(said) == (ort_refuses(model) is not None), (operands, group, said)


def test_a_kernel_fits_where_onnx_runtime_makes_an_output():
    seen = Counter[bool]()
    for extent, kernel, before, behind, dilation, stride in product((1, 4), (2, 3, 4), (0, 1), (0, 2), (1, 2), (1, 3)):
        more = f"pads = [{before}, {behind}], dilations = [{dilation}], strides = [{stride}]"
        model = model_of("Conv", f"x[1,3,{extent}] w[4,3,{kernel}]", more)
        said = said_of(model)
        assert bool(said) == (ort_refuses(model) is not None), (extent, kernel, more, said)
        seen[bool(said)] += 1
    assert seen[True] > 30
    assert seen[False] > 30


@pytest.mark.parametrize(
    ("operands", "attributes", "misfit"),
    [
        ("x[1,3,2,8] w[4,3,3,3]", "", "a kernel that spans 3 elements of axis 2; expected at most 2"),
        ("x[1,3,8,2] w[4,3,3,3]", "", "a kernel that spans 3 elements of axis 3; expected at most 2"),
        (
            "x[1,3,4,4] w[4,3,3,3]",
            'auto_pad = "VALID", dilations = [1, 2]',
            "a kernel that spans 5 elements of axis 3; expected at most 4",
        ),
        ("x[1,3,2,2] w[4,3,3,3]", 'auto_pad = "SAME_UPPER"', None),
        ("x[1,3,2,2] w[4,3,3,3]", 'auto_pad = "SAME_LOWER"', None),
        ("x[1,3,H,W] w[4,3,3,3]", "", None),
        ("x[1,3,2,2] w[4,3,h,w]", "", None),
    ],
)
def test_a_kernel_that_is_too_large(operands, attributes, misfit):
    model = model_of("Conv", operands, attributes)
    assert said_of(model) == ([] if misfit is None else [f"Conv has {misfit}, the extent of the padded input"])
    if "H" not in operands and "h" not in operands:
        assert (ort_refuses(model) is None) == (misfit is None)


@pytest.mark.parametrize(
    ("operands", "attributes"),
    [
        ("x[1,C,8,8] w[4,2,3,3]", ""),
        ("x[1,3,8,8] w[4,c,3,3]", ""),
        ("x[1,3,8,8] w[M,3,3,3] b[5]", ""),
        ("x[1,3,8,8] w[4,3,3,3] b[L]", ""),
        ("x[1,4,8,8] w[M,2,h,w]", "group = 2, kernel_shape = [3, 3]"),
    ],
)
def test_extents_that_are_open_may_fit(operands, attributes):
    assert said_of(model_of("Conv", operands, attributes)) == []


@pytest.mark.parametrize(
    ("operands", "attributes", "misfit"),
    [
        ("x[1,C,8,8] w[5,2,3,3]", "group = 2", "5 output channels; expected a multiple of 2, the number of groups"),
        ("x[1,3,8,8] w[M,2,3,3]", "", "a weight of shape [M, 2, 3, 3]; expected [?, 3, 3, 3]"),
    ],
)
def test_what_is_known_of_an_open_shape_is_compared(operands, attributes, misfit):
    assert said_of(model_of("Conv", operands, attributes)) == [f"Conv has {misfit}"]


def test_a_group_normalization_before_opset_21_scales_groups():
    attributes = "num_groups = 2"
    fits, misfits = (f"x[1,4,3] s[{length}] b[{length}]" for length in (2, 4))
    assert said_of(model_of("GroupNormalization", fits, attributes, 20)) == []
    assert said_of(model_of("GroupNormalization", misfits, attributes, 20)) == [
        "GroupNormalization has a scale of shape [4]; expected [2]"
    ]


@pytest.mark.parametrize(("data", "slope"), [("2,3", "1,2,3"), ("1,3", "2,3"), ("2,1", "3")])
def test_onnx_runtime_alone_broadcasts_data_to_a_slope(data, slope):
    model = model_of("PRelu", f"x[{data}] s[{slope}]")
    for target in ("onnx", "tensorrt"):
        assert len(messages("QS014", model, target)) == 1
    assert messages("QS014", model, "ort-cpu") == []
    assert ort_refuses(model) is None


@pytest.mark.parametrize(
    ("opset", "op_type", "operands", "attributes"),
    [(6, "PRelu", "x[1,3,2] s[3]", ""), (6, "Gemm", "x[2,3] w[3,5] b[2]", "broadcast = 1")],
)
def test_the_broadcast_of_opset_6_is_not_judged(opset, op_type, operands, attributes):
    assert said_of(model_of(op_type, operands, attributes, opset)) == []


@pytest.mark.parametrize(
    ("shape", "misfit"), [("4, 2", "8 elements in [4, 2]; expected 6, the elements of [2, 3]"), ("3, 2", None)]
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
    (finding,) = findings("QS014", model_of("Conv", "x[1,3,8,8] w[4,3,3,3] b[3]"))
    assert (finding.tensor, finding.found, finding.expected) == ("b", "a bias of shape [3]", "[4]")
