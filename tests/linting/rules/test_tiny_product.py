"""QL308: small layers, where the model has larger ones too."""

import pytest
from support.one_rule import messages


def layers(*sizes: tuple[int, int], activation: bool = True, constant: bool = True) -> str:
    inputs, stored, nodes = "", "", ""
    for number, (inner, outer) in enumerate(sizes):
        if constant:
            stored += f", int8[{inner}, {outer}] w{number} = {{{', '.join(['1'] * inner * outer)}}}"
        else:
            inputs += f", int8[{inner}, {outer}] w{number}"
        inputs += f", float[4, {inner}] x{number}"
        nodes += f"v{number} = DequantizeLinear (w{number}, s) "
        if activation:
            nodes += f"q{number} = QuantizeLinear (x{number}, s) d{number} = DequantizeLinear (q{number}, s) "
        nodes += f"y{number} = MatMul ({'d' if activation else 'x'}{number}, v{number}) "
    return f"agraph (float[1] u{inputs}) => (float[] y0) <float s = {{1}}{stored}> {{ {nodes} }}"


SMALL = "the weight has {} input and {} output channels"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (layers((4, 4), (16, 4)), [SMALL.format(4, 4)]),
        (layers((4, 15), (4, 16)), [SMALL.format(4, 15)]),
        (layers((15, 15), (2, 3), (16, 16)), [SMALL.format(15, 15), SMALL.format(2, 3)]),
        (layers((16, 1), (1, 16)), []),
        # Where all are small, so is the model.
        (layers((4, 4)), []),
        (layers((4, 4), (2, 2)), []),
        (layers((4, 4), (16, 4), activation=False), []),
        (layers((4, 4), (16, 4), constant=False), []),
    ],
)
def test_sizes(model: str, expected: list[str]):
    assert messages("QL308", model) == expected
