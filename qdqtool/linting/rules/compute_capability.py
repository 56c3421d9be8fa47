"""QT401: types for which a GPU has no hardware."""

from onnx import TensorProto

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target, capability_title
from qdqtool.models.targets import capability_name as sm


class ComputeCapability(Rule):
    """Every GPU given by ``--sm`` has hardware for the types of the model.

    Why it matters: if no GPU is named, the builder accepts fp8 and fp4 without a message. Later, a GPU without these
    types refuses the engine. With ``--sm`` the rule checks each given GPU; without the option it checks none.

    Bad: float8e4m3fn for compute capability 8.6.

    Good: int8 from 7.5 on, int4 and bfloat16 from 8.0, float8e4m3fn from 8.9, float4e2m1 from 10.0 (TensorRT for RTX:
    12.0).
    """

    code = "QT401"
    name = "target.compute-capability"
    affects = impacts(tensorrt=REFUSED)
    remedy = "quantize to a type that every GPU has (int8), or build one model for each generation"
    VALID = examples("""
        int8 on 8.6 [sm_86]:
            $ONE_PAIR
        float8e4m3fn on 8.9 [sm_89]:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                q = QuantizeLinear <output_dtype = 17> (x, s)
                y = DequantizeLinear (q, s)
            }
    """)
    INVALID = examples("""
        float8e4m3fn on 8.6 [sm_86]:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                q = QuantizeLinear <output_dtype = 17> (x, s)
                y = DequantizeLinear (q, s)
            }
        int4 on 7.5 [sm_75]:
            agraph (float[1,2] x) => (float[1,2] y) <int4[2,2] w = {33, 67}, float ws = {0.1}> {
                wd = DequantizeLinear (w, ws)
                y = MatMul (x, wd)
            }
        bfloat16 (bits 15821 are 0.1) on 7.5 [sm_75]:
            agraph (bfloat16[1,4] x) => (bfloat16[1,4] y) <bfloat16 s = {15821}, int8 z = {0}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Yield a fault for each GPU and each type that it lacks, at the first Q or DQ of that type."""
        if not target.compute_capabilities:
            return
        users = _users(context)
        for asked in target.compute_capabilities:
            buildable = target.buildable(asked)
            if buildable is not None:
                message = f"{target.title} cannot build for compute capability {capability_title(asked)}"
                yield Fault(message, found=sm(asked), expected=buildable)
                continue
            for name, entries in users.items():
                first = target.min_compute_capability.get(name, 0)
                if asked < first:
                    message = f"compute capability {sm(asked)} has no type {name}, which {len(entries)} Q/DQ nodes use"
                    expected = f"compute capability {sm(first)} or later"
                    yield Fault(message, entries[0].node, entries[0].data, found=name, expected=expected)


def _users(context: RuleContext) -> dict[str, list[QdqNode]]:
    users: dict[str, list[QdqNode]] = {}
    for entry in context.qdq.nodes:
        users.setdefault(kind(entry.quantized_type), []).append(entry)
        # bfloat16 tensors count as a type too: compute capability 7.5 has no bfloat16 kernels.
        if TensorProto.BFLOAT16 in {context.elem_type(entry.scale), context.elem_type(entry.data)}:
            users.setdefault("bfloat16", []).append(entry)
    return users
