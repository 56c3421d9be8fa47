"""QL310: quantized ConvTranspose, for TensorRT only with per-axis weights."""

import pytest
from support.one_rule import messages

PAIR = "q = QuantizeLinear (x, s) d = DequantizeLinear (q, s) "
ONE, SEVERAL = "v = DequantizeLinear (w, s) ", "v = DequantizeLinear <axis = 1> (w, t) "


@pytest.mark.parametrize(
    ("body", "weight", "targets"),
    [
        (PAIR + ONE + "y = ConvTranspose (d, v)", "per-tensor", {"tensorrt-rtx"}),
        (PAIR + SEVERAL + "y = ConvTranspose (d, v)", "per-axis 1", {"tensorrt", "tensorrt-rtx"}),
        (PAIR + SEVERAL + "y = Conv (d, v)", "", set()),
        (SEVERAL + "y = ConvTranspose (x, v)", "", set()),
        (PAIR + "y = ConvTranspose (d, f)", "", set()),
    ],
)
def test_weights(body: str, weight: str, targets: set[str]):
    model = f"""agraph (float[1,2,4,4] x, float[2,2,1,1] f, int8[2,2,1,1] w) => (float[] y)
    <float s = {{1}}, float[2] t = {{1, 1}}> {{ {body} }}"""
    for target in ("tensorrt", "tensorrt-rtx"):
        said = [f"this ConvTranspose is quantized (weight: {weight})"] if target in targets else []
        assert messages("QL310", model, target) == said
