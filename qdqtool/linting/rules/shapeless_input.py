"""QM611: graph inputs without a shape."""

import onnx

from qdqtool.linting.rules.support.rule import REFUSED, SILENT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target


class ShapelessInput(Rule):
    """A graph input has a shape; its dimensions may be unknown.

    Why it matters: TensorRT reads an input without a shape as a scalar and builds an engine for it silently.

    Bad: float x, without a shape.

    Good: float[N, 3, H, W] x.
    """

    code = "QM611"
    name = "model.shapeless-input"
    affects = impacts(onnx=REFUSED, tensorrt=SILENT)
    remedy = "declare a shape of the input; dimensions that vary can be symbolic"
    VALID = examples("""
        a dynamic dimension:
            agraph (float[N,4] x) => (float[N,4] y) <float s = {0.1}, int8 z = {0}> {
                $PAIR_TO_Y
            }
    """)
    INVALID = examples("""
        no shape:
            agraph (float[] x) => (float[] y) <float s = {0.1}, int8 z = {0}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the inputs of the main graph."""
        graph = context.view.main.container
        assert isinstance(graph, onnx.GraphProto)
        for info in graph.input:
            stored = context.view.main.values[info.name].initializer is not None
            if info.type.HasField("tensor_type") and not info.type.tensor_type.HasField("shape") and not stored:
                message = f"input '{info.name}' has no shape"
                yield Fault(message, tensor=info.name, found="no shape", expected="a shape of known rank")
