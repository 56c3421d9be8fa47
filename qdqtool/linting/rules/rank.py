"""QA210: tensors with more dimensions than the target supports."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import dims, short
from qdqtool.models.targets import Target

MAX_RANK = 8
"""The greatest number of dimensions in TensorRT's ``Dims`` (``Dims::MAX_DIMS``)."""


class Rank(Rule):
    """A quantized tensor has at most 8 dimensions.

    Why it matters: TensorRT has no tensors with more than 8 dimensions. Its parser stops with "Failed to convert ONNX
    dimensions" and does not name the tensor.

    Bad: a pair on a tensor of rank 9.

    Good: a Reshape before the pair that joins neighboring dimensions.
    """

    code = "QA210"
    name = "axis.rank"
    affects = impacts(tensorrt=REFUSED)
    remedy = "join neighboring dimensions with a Reshape"
    VALID = examples("""
        8 dimensions:
            agraph (float[1,1,1,1,1,1,1,4] x) => (float[1,1,1,1,1,1,1,4] y) <float s = {0.1}, int8 z = {0}> {
                $PAIR_TO_Y
            }
    """)
    INVALID = examples("""
        9 dimensions:
            agraph (float[1,1,1,1,1,1,1,1,4] x) => (float[1,1,1,1,1,1,1,1,4] y) <float s = {0.1}, int8 z = {0}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Count the data dimensions of each Q, and of each DQ without a Q."""
        for entry in context.qdq.nodes:
            shape = context.data_shape(entry)
            if shape is not None and len(shape) > MAX_RANK and context.qdq.quantizer_of(entry) is None:
                message = f"this {short(entry)} reads a tensor of shape {dims(shape)}"
                found = f"{len(shape)} dimensions"
                yield Fault(message, entry.node, entry.data, found=found, expected=f"at most {MAX_RANK}")
