"""QS011: attributes of a Q or DQ that ONNX does not define, or with values that it does not allow."""

import onnx
from onnx import AttributeProto

from qdqtool.linting.rules.support.extents import FIRST_OPSET_OF_ATTRIBUTE
from qdqtool.linting.rules.support.rule import CAUTION, REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import FLOAT_NAMES, kind, listed, short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target


class AttributeUnknown(Rule):
    """ONNX defines every attribute of a Q or DQ and allows its value.

    Why it matters: onnx's checker and ONNX Runtime refuse a node with an attribute of another name or type. TensorRT's
    parser skips unknown attributes, so a misspelt ``axis`` quantizes another axis without a message.

    Bad: QuantizeLinear <axes = 0>; axis = 1.0; a negative block_size; a DQ with output_dtype = INT8.

    Good: axis, block_size, saturate, output_dtype, precision, if the operator has them at the opset.
    """

    code = "QS011"
    name = "spec.attribute-unknown"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=CAUTION)
    remedy = "correct the attribute's name and type, or remove it"
    VALID = examples("""
        attributes that opset 21 has:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear <axis = 1, output_dtype = 3> (x, s, z)
                y = DequantizeLinear <axis = 1> (q, s, z)
            }
    """)
    INVALID = examples("""
        a misspelt name:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear <axes = 0> (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
        an axis that is not an integer:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear <axis = 1.0> (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
        an attribute of the other operator:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear <saturate = 1> (q, s, z)
            }
        a DQ that is to make int8:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,4] x) => (y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear <output_dtype = 3> (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at every attribute of each Q and DQ."""
        for entry in context.qdq.nodes:
            for attribute in entry.node.proto.attribute:
                problem = _problem(entry, attribute)
                if problem is not None:
                    message = f"attribute '{attribute.name}' of this {short(entry)} {problem[0]}"
                    impact = REFUSED if _stops_parser(attribute) else None
                    yield Fault(message, entry.node, found=problem[0], expected=problem[1], impact=impact)


def _problem(entry: QdqNode, attribute: onnx.AttributeProto) -> tuple[str, str] | None:
    known = FIRST_OPSET_OF_ATTRIBUTE[entry.standard_name]
    if attribute.name not in known:
        return "is unknown to this operator", listed(known)
    if attribute.ref_attr_name:
        # This node is in a local function, and each call of the function gives the value of the attribute.
        return None
    if attribute.type != AttributeProto.INT:
        return "is not an integer", "an integer"
    if attribute.name == "block_size" and attribute.i < 0:
        return f"is {attribute.i}", "0 or more"
    made = kind(attribute.i)
    if attribute.name == "output_dtype" and not entry.is_quantize and attribute.i and made not in FLOAT_NAMES:
        return f"is {made}", listed(FLOAT_NAMES)
    return None


def _stops_parser(attribute: onnx.AttributeProto) -> bool:
    """Return whether TensorRT's parser refuses the node for this attribute; it ignores most unknown attributes."""
    # The other targets refuse every attribute that this rule reports. Measured with TensorRT for RTX: the parser
    # asserts that only a Q has `precision`, and ITensor::getDimensions fails for another `output_dtype` than float,
    # half or bfloat16. float64 passes, and so does an attribute that is not an INT, such as `output_dtype = 1.0`. A Q
    # has both attributes, and any number is right for a Q.
    if attribute.type != AttributeProto.INT:
        return False
    return attribute.name == "precision" or (attribute.name == "output_dtype" and kind(attribute.i) != "float64")
