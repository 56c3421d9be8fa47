"""QS010: Q and DQ of com.microsoft move to the standard domain where the opset has what they use."""

import onnx
import pytest
from support.one_rule import findings, fixed, messages, parsed, unfit


def pair(kind: str, count: int | None = None, opset: int = 21, role: str = "QuantizeLinear") -> onnx.ModelProto:
    of_scale = "" if count is None else f"[{count}]"
    ones, zeros = (", ".join([word] * (count or 1)) for word in "10")
    data, made = ("float", kind) if role == "QuantizeLinear" else (kind, "float")
    return parsed(
        f"""agraph ({data}[2,2] x) => ({made}[2,2] y)
        <float{of_scale} s = {{{ones}}}, {kind}{of_scale} z = {{{zeros}}}> {{
            y = com.microsoft.{role} (x, s, z)
        }}""",
        opset,
    )


def test_both_are_reported_and_those_of_onnx_are_not():
    for role, word in (("QuantizeLinear", "Q"), ("DequantizeLinear", "DQ")):
        (found,) = findings("QS010", pair("int8", role=role), "onnx")
        assert found.message == f"this {word} is in domain com.microsoft"
        model = pair("int8", role=role)
        model.graph.node[0].domain = ""
        assert messages("QS010", model, "onnx") == []


@pytest.mark.parametrize(
    ("kind", "opset", "role", "reason"),
    [
        ("int8", 10, "QuantizeLinear", None),
        ("int8", 21, "QuantizeLinear", None),
        ("int16", 21, "QuantizeLinear", None),
        ("int16", 20, "QuantizeLinear", "opset 20 has no Q with int16"),
        ("int16", 20, "DequantizeLinear", "opset 20 has no DQ with int16"),
        ("int4", 19, "DequantizeLinear", "opset 19 has no DQ with int4"),
        ("int32", 21, "DequantizeLinear", None),
        ("int32", 21, "QuantizeLinear", "opset 21 has no Q with Q/DQ"),
        ("int64", 21, "DequantizeLinear", "opset 21 has no DQ with Q/DQ"),
    ],
)
def test_it_moves_where_the_opset_has_the_type(kind: str, opset: int, role: str, reason: str | None):
    model = pair(kind, opset=opset, role=role)

    assert unfit("QS010", model, "onnx") == reason
    if reason is None:
        changed = fixed("QS010", model, "onnx")
        assert [each.domain for each in changed.graph.node] == [""]
        onnx.checker.check_model(changed, full_check=True)


@pytest.mark.parametrize(("count", "axis"), [(None, []), (1, []), (2, [1])])
def test_several_scales_keep_their_axis(count: int | None, axis: list[int]):
    changed = fixed("QS010", pair("int8", count), "onnx")

    assert [each.i for each in changed.graph.node[0].attribute if each.name == "axis"] == axis
