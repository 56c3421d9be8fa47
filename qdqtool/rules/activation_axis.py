"""QA202: activations with more than one scale."""

from collections.abc import Iterator

from qdqtool.numerics.granularity import PerTensor
from qdqtool.rules._facts import Facts
from qdqtool.rules._rule import Example, Fault, Impact, Rule, impacts
from qdqtool.rules._words import dims, short
from qdqtool.targets import Target


class ActivationAxis(Rule):
    """An activation has one scale.

    Why it matters: NVIDIA documents per-tensor scales for activations. The parser takes more, but then a Conv runs in
    float and the pair only rounds.

    Bad: a pair with a scale for each channel in front of a Conv.

    Good: one scale for the activation, per-axis scales for the weight.
    """

    code = "QA202"
    name = "axis.activation"
    affects = impacts(tensorrt=Impact("error", "fallback"))
    remedy = "calibrate the activation per tensor; keep per-axis scales for weights"
    VALID = (
        Example(
            "one scale for the activation",
            """
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                y = Conv (xd, wd)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "a scale for each input channel of a Conv",
            """
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float[2] s = {0.1, 0.3}, int8[2] z = {0,0}, int8[2,2,1,1] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                q = QuantizeLinear <axis = 1> (x, s, z)
                xd = DequantizeLinear <axis = 1> (q, s, z)
                wd = DequantizeLinear (w, ws, wz)
                [c] y = Conv (xd, wd)
            }
            """,
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Look at every Q of data, and every DQ that reads data from elsewhere than a Q."""
        del target
        for entry in facts.qdq.nodes:
            if not entry.is_quantize and facts.qdq.quantizer_of(entry) is not None:
                continue
            granularity = entry.granularity
            if granularity is None or isinstance(granularity, PerTensor) or entry.data is None:
                continue
            if not facts.is_constant(entry.data):
                assert entry.scale_shape is not None
                yield Fault(
                    message=f"this {short(entry)} gives an activation scales {granularity}",
                    node=entry.node,
                    tensor=entry.data,
                    found=f"scale of shape {dims(entry.scale_shape)}",
                    expected="one scale",
                )
