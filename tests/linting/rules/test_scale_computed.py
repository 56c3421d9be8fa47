"""Which scales count as computed."""

import pytest
from support.fixing import located, read

CODE = "QP111"


@pytest.mark.parametrize(
    ("setup", "inputs", "found"),
    [
        ("s = Mul (a, a)", "", "Mul"),
        ("s = Identity (a)", "", "Identity"),
        ("s = Constant <value = float {1}> ()", "", None),
        ("s = Constant <value_float = 1.0> ()", "", None),
        ("s = DequantizeLinear (codes, a)", "", None),
        ("s = Mul (c, a)", "", None),
        ("s = local.Unknown (a)", "", None),
        ("", ", float s", None),
        ("", "", None),
    ],
)
def test_what_is_computed(setup: str, inputs: str, found: str | None):
    """A good pair, and another one with a computed scale, stand around it."""
    context = read(
        f"""
        agraph (float[4] x, float c{inputs}) => (float[4] y) <float a = {{0.5}}, float8e4m3fn codes = {{56}}> {{
            {setup}
            q = QuantizeLinear <output_dtype = 3> (x, s)
            d = DequantizeLinear (q, s)
            t = Add (a, a)
            r = QuantizeLinear <output_dtype = 3> (x, t)
            y = DequantizeLinear (r, t)
        }}
        """
    )
    reported = [(finding.message, finding.tensor, finding.found, finding.node) for finding, _ in located(CODE, context)]
    first = (f"scale 's' of this Q is computed by {found}", "s", found, "QuantizeLinear -> q")
    last = ("scale 't' of this Q is computed by Add", "t", "Add", "QuantizeLinear -> r")

    assert reported == [*([first] if found else []), last]
