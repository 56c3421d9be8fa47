"""QN503: operators whose output differs from run to run."""

from qdqtool.linting.rules.support.fix import Draft, Offer
from qdqtool.linting.rules.support.rule import REFUSED, SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models import ops
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops.support.random_nodes import random_nodes
from qdqtool.models.targets import Target

TRAINING_MODE = 2
"""Index of the input of a Dropout that turns dropping of values on."""

INFERENCE = Offer("unsafe", "sets a Dropout to inference mode")


class RandomOutputs(Rule):
    """No operator draws random numbers.

    Why it matters: the outputs differ from run to run and cannot be compared. A model checked against itself has an
    SQNR of a few dB, ranges differ between calibrations, and an engine draws other numbers than the reference. A
    Dropout in training mode is an error of the export. Other generators may be intended, such as the noise of a speech
    synthesizer. Make such noise an input of the graph. A seed does not help: ONNX Runtime draws new numbers in the next
    run.

    Bad: a Dropout whose ``training_mode`` is true, RandomNormalLike, Multinomial or Bernoulli.

    Good: a model exported in inference mode; noise that is an input.
    """

    code = "QN503"
    name = "numbers.random-outputs"
    affects = impacts(onnx=SUSPECT, ort_cpu=SUSPECT, tensorrt=SUSPECT)
    remedy = "export the model in inference mode, or make the random numbers an input of the graph"
    offers = (INFERENCE,)
    VALID = examples("""
        a Dropout in inference mode:
            agraph (float[1,64] x) => (float[1,64] y)
            <float ratio = {0.5}, bool training = {0}, float s = {0.1}, int8 z = {0}> {
                d = Dropout (x, ratio, training)
                q = QuantizeLinear (d, s, z)
                y = DequantizeLinear (q, s, z)
            }
        noise that is an input:
            agraph (float[1,64] x, float[1,64] noise) => (float[1,64] y) <float s = {0.1}, int8 z = {0}> {
                a = Add (x, noise)
                q = QuantizeLinear (a, s, z)
                y = DequantizeLinear (q, s, z)
            }
    """)
    INVALID = examples("""
        a Dropout in training mode:
            agraph (float[1,64] x) => (float[1,64] y)
            <float ratio = {0.5}, bool training = {1}, float s = {0.1}, int8 z = {0}> {
                d = Dropout (x, ratio, training)
                q = QuantizeLinear (d, s, z)
                y = DequantizeLinear (q, s, z)
            }
        noise that the model draws:
            agraph (float[1,64] x) => (float[1,64] y) <float s = {0.1}, int8 z = {0}> {
                noise = RandomNormalLike (x)
                a = Add (x, noise)
                q = QuantizeLinear (a, s, z)
                y = DequantizeLinear (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Report every node that draws random numbers; TensorRT refuses a Dropout that does."""
        for node in random_nodes(context.index):
            drops = ops.traits(node).passes_values
            what = "is in training mode: it drops values at random" if drops else "draws random numbers"
            fix = INFERENCE.fix("sets the Dropout to inference mode", _infer, node)
            yield Fault(
                message=f"{node.op_type} {what}, and the outputs differ from run to run",
                node=node,
                tensor=node.output(),
                expected="inference mode" if drops else "an input of the graph",
                found="training mode" if drops else "random numbers",
                impact=REFUSED if drops and target.family == "tensorrt" else None,
                fixes=(fix,) if drops else (),
            )


def _infer(node: NodeView, draft: Draft) -> None:
    draft.set_input(node, TRAINING_MODE, "")
