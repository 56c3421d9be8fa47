"""QP112: the precision of a Q against the type of its scale."""

import pytest
from support.one_rule import findings, parsed


@pytest.mark.parametrize(
    ("attribute", "scale", "expected"),
    [
        ("precision = 1", "float", None),
        ("precision = 10", "float16", None),
        ("precision = 0", "float16", None),
        ("axis = 1", "float16", None),
        ("precision = 1", "float16", ("float32", "float16")),
        ("precision = 10", "float", ("float16", "float32")),
        ("precision = 10", "unknown", None),
        ("precision = 1.0", "float16", None),
    ],
)
def test_types(attribute: str, scale: str, expected: tuple[str, str] | None):
    made = "s = com.microsoft.Foo (x)" if scale == "unknown" else ""
    given = "" if made else f", {scale} s"
    model = parsed(
        f"agraph (float[2] x{given}) => (uint8[2] y) {{ {made} y = QuantizeLinear <{attribute}> (x, s) }}", 23
    )
    for target in ("ort-cpu", "tensorrt"):
        told = [each.message for each in findings("QP112", model, target)]
        said = "precision is {}, the scale of this Q is {}"
        assert told == ([said.format(*expected)] if expected else [])
