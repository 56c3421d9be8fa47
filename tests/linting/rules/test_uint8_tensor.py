"""QT410: which operators may read a uint8 input of the model."""

import pytest
from support.one_rule import findings


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("y = Cast <to = 1> (image)", []),
        ("[k] y = Transpose (image)", ["k"]),
        ("[k] y = Transpose (floats)", []),
        ("[k] y = Transpose (stored)", []),
        ("t = Cast <to = 2> (image) [k] y = Transpose (t)", []),
        ("[k] y = com.microsoft.Transpose (image)", []),
        ("[k] a = Transpose (image) b = Cast <to = 1> (image) [l] c = Transpose (image)", ["k", "l"]),
    ],
)
def test_readers(body: str, reported: list[str]):
    model = f"""agraph (float[2] floats, uint8[2] image) => (uint8[2] y) <uint8[2] stored = {{1, 2}}> {{ {body} }}"""
    found = findings("QT410", model)

    assert [each.node for each in found] == reported
    assert {each.message for each in found} <= {"Transpose reads the uint8 input 'image'"}
