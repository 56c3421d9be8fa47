"""QM606: stored tensors of types that TensorRT does not import."""

import pytest
from support.one_rule import findings, fixed, messages


def storing(kind: str, body: str = "y = Relu (x)", inputs: str = "", outputs: str = "float[2] y") -> str:
    return f"""agraph (float[2] x{inputs}) => ({outputs}) <{kind}[2] k = {{1, 0}}, float s = {{1}}> {{ {body} }}"""


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("float", False),
        ("double", False),
        ("int8", False),
        ("uint8", False),
        ("int64", False),
        ("bool", False),
        ("int16", True),
        ("uint16", True),
        ("uint32", True),
        ("uint64", True),
        ("uint4", True),
    ],
)
def test_types(kind: str, refused: bool):
    told = f"initializer 'k' has type {kind}, and nothing reads it"

    assert messages("QM606", storing(kind)) == [told] * refused


def test_a_type_of_a_later_release():
    (found,) = findings("QM606", storing("float4e2m1"), "tensorrt-10.7")

    assert found.expected.endswith("(float4e2m1 from release 10.8 on)")
    assert messages("QM606", storing("float4e2m1"), "tensorrt-10.8") == []


@pytest.mark.parametrize(
    ("model", "message", "fixable"),
    [
        (storing("int16"), "initializer 'k' has type int16, and nothing reads it", True),
        (storing("int16", "y = Cast <to = 1> (k)"), "initializer 'k' has type int16", False),
        (
            storing("int16", outputs="float[2] y, int16[2] k"),
            "initializer 'k' has type int16, and nothing reads it",
            False,
        ),
        (storing("int16", inputs=", int16[2] k"), "initializer 'k' has type int16, and nothing reads it", False),
    ],
)
def test_only_what_is_of_no_use_can_be_taken_out(model: str, message: str, fixable: bool):
    (found,) = findings("QM606", model)

    assert (found.message, found.fixable) == (message, fixable)
    assert found.node == ("Cast -> y" if "Cast" in model else None)


def test_the_fix_takes_it_out():
    model = fixed("QM606", storing("int16"))

    assert [each.name for each in model.graph.initializer] == ["s"]


def test_what_a_q_or_dq_reads_is_reported_there():
    assert messages("QM606", storing("int16", "y = DequantizeLinear (k, s)")) == []
