"""QN501: scales or weight codes computed from random data."""

import msgspec

from qdqtool.linting.rules.support.rule import SUSPECT, Example, Fault, Faults, Rule, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.io.metadata import CALIBRATION_KEY, read_metadata
from qdqtool.models.targets import Target

_TEXT = """
            <ir_version: 10, opset_import: ["": 21], metadata_props: ["qdqtool.calibration": "%s"]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
            """


class RandomCalibration(Rule):
    """Calibration used real samples, not random data.

    Why it matters: random calibration is good for testing a pipeline, measuring speed and looking at kernels. But its
    scales and weight codes fit noise: the outputs are wrong on real inputs, and nothing else shows it. The metadata
    entry ``qdqtool.calibration`` records how a model was calibrated; a model without the entry passes. For a release,
    set ``severity = { QN501 = "error" }``.

    Bad: a released model that was quantized with ``--random-calibration``.

    Good: calibration with samples like those the model will see.
    """

    code = "QN501"
    name = "numbers.random-calibration"
    affects = impacts(onnx=SUSPECT, ort_cpu=SUSPECT, tensorrt=SUSPECT)
    remedy = "quantize again with real samples"
    VALID = (Example("real samples", _TEXT % r"{\"method\": \"max\", \"samples\": 64, \"random\": false}"),)
    INVALID = (Example("random samples", _TEXT % r"{\"method\": \"max\", \"samples\": 4, \"random\": true}"),)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Read the metadata entry; it is ignored if it is not a JSON object."""
        note = read_metadata(context.model, CALIBRATION_KEY)
        if note is None:
            return
        try:
            record = msgspec.json.decode(note, type=dict[str, object])
        except msgspec.DecodeError:
            return
        if record.get("random") is True:
            yield Fault("the model was calibrated with random data", found="random", expected="real samples")
