"""QT402: layers without a kernel on the target or GPU, although it supports their types."""

from onnx import TensorProto

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext, Shape
from qdqtool.linting.rules.support.words import HALF_TYPES, Wrong, kind
from qdqtool.models import ops
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target

TURING = 75

# Measured with TensorRT for RTX on the examples of onnx, and on 650 models with varied type, rank, mask, heads, lengths
# and producers of the inputs. Two kinds of attention are computed as separate layers, in any type: a single query with
# at least 4 heads over all batches, and attention of rank 3 without mask, causality or shared heads whose inputs no
# Cast or DQ makes. All other attention needs a fused kernel: float16 or bfloat16, with heads of 9 to 256 elements.
FUSED_HEADS = range(9, 257)
LEAST_HEADS = 4
"""A single query with at least this many heads, counted over all batches, is computed as separate layers."""

MASK, PAST_KEY = 3, 4


class MissingKernel(Rule):
    """The target has a kernel for every layer of the model, on every GPU given by ``--sm``.

    Why it matters: TensorRT for RTX has no ConvTranspose, GRU, HardSwish, LpNormalization, LpPool and Mish in bfloat16
    on any GPU. Celu, MeanVarianceNormalization and recurrent layers with sequence_lens work in float32 only. For
    compute capability 7.5 it has no matrix product with float32 output ("FP32 GEMM is not supported") and nothing in
    bfloat16, quantized or not. It computes the Attention operator in float16 and bfloat16, with heads of 9 to 256
    elements. Other types and heads work in two cases. In the first, there is a single query, and batch size times heads
    is at least 4. In the second, inputs have rank 3 and no Cast or DQ makes them, and there is no mask, causality or
    shared head. An Attention operator with a second output, softcap, softmax_precision, past keys, or keys and values
    of different head size is refused. The rule finds this before the build.

    Bad: the Attention operator between float32 tensors; with ``--sm 7.5``, an int8 MatMul that makes float32.

    Good: scales in float16, so that the DQs and the layer make float16.
    """

    code = "QT402"
    name = "target.missing-kernel"
    affects = impacts(tensorrt_rtx=REFUSED)
    remedy = (
        "compute the layer in float16 (scales in float16), as `quantize --high-precision-dtype fp16` does, or leave "
        "out the GPU without the kernel"
    )
    VALID = examples("""
        float16 (bits 11878 are 0.1) on 7.5 [sm_75]:
            agraph (float16[1,16] x) => (float16[1,16] y) <float16 s = {11878}, int8 z = {0}, int64[2] n = {16, 16}> {
                $PAIR_TO_XD
                w = ConstantOfShape <value = float16[1] {11878}> (n)
                wq = QuantizeLinear (w, s, z)
                wd = DequantizeLinear (wq, s, z)
                y = MatMul (xd, wd)
            }
        HardSwish in float16:
            agraph (float16[1,4] x) => (float16[1,4] y) {
                y = HardSwish (x)
            }
        Attention of rank 3 without a mask, in float32:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,16,128] q, float[1,16,128] k, float[1,16,128] v) => (float[1,16,128] y) {
                y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v)
            }
        Attention of a single query, in float32:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,4,1,64] q, float[1,4,16,64] k, float[1,4,16,64] v) => (float[1,4,1,64] y) {
                y = Attention (q, k, v)
            }
    """)
    INVALID = examples("""
        Attention with a mask that is causal as well (float16):
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float16[1,2,16,64] q, float16[1,2,16,64] k, float16[1,2,16,64] v, float16[16,16] m)
                => (float16[1,2,16,64] y) {
                y = Attention <is_causal = 1> (q, k, v, m)
            }
        Attention with heads of 8 in float16:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float16[1,2,16,8] q, float16[1,2,16,8] k, float16[1,2,16,8] v) => (float16[1,2,16,8] y) {
                y = Attention (q, k, v)
            }
        float32 on 7.5 [sm_75]:
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float ws = {0.1}> {
                $PAIR_TO_XD
                wd = DequantizeLinear (w, ws, z)
                y = MatMul (xd, wd)
            }
        the Attention operator in float32:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,2,16,64] q, float[1,2,16,64] k, float[1,2,16,64] v) => (float[1,2,16,64] y) {
                y = Attention (q, k, v)
            }
        an LSTM with lengths of the sequences in float16:
            agraph (float16[3,1,4] x, float16[1,16,4] w, int32[1] n) => (float16[3,1,1,4] y) {
                y = LSTM <hidden_size = 4> (x, w, w, , n)
            }
        a quantized ConvTranspose in bfloat16 (bits 15821 are 0.1):
            <ir_version: 10, opset_import: ["": 22]>
            agraph (bfloat16[1,2,4,4] x) => (bfloat16[1,2,4,4] y)
            <bfloat16 s = {15821}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}> {
                $PAIR_TO_XD
                wd = DequantizeLinear (w, s, z)
                y = ConvTranspose (xd, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look up the operator and output type of each layer."""
        turing = TURING in target.compute_capabilities
        for node in context.nodes:
            if node.is_op("Attention"):
                yield from _attention(context, node, target)
                continue
            made = context.elem_type(node.output())
            nowhere = ops.lacks_kernel(node, made)
            if nowhere or (turing and (family := ops.get(node)) is not None and made in family.no_turing_kernel):
                where = target.title if nowhere else "compute capability 7.5"
                lengths = " and sequence_lens" if nowhere and made not in ops.traits(node).no_kernel else ""
                message = f"{where} has no {node.op_type} with {kind(made)} output{lengths}"
                expected = "float32" if ops.lacks_kernel(node, TensorProto.FLOAT16) else "float16"
                yield Fault(message, node, node.output(), found=kind(made), expected=expected)


def _attention(context: RuleContext, node: NodeView, target: Target) -> Faults:
    problem = refusal(context, node)
    if problem is not None:
        message = f"{target.title} has no Attention with {problem.found}"
        yield Fault(message, node, node.output(), found=problem.found, expected=problem.expected)


def refusal(context: RuleContext, node: NodeView) -> Wrong | None:
    """Return why TensorRT for RTX refuses an Attention node; None if it does not, or the type is unknown."""
    return _unread(node) or _unequal_heads(context, node) or _no_kernel(context, node)


def _unread(node: NodeView) -> Wrong | None:
    """Return the first feature of an Attention node that the parser does not support."""
    if len(node.proto.output) > 1:
        return Wrong(f"{len(node.proto.output)} outputs", "one output")
    if node.attribute("softcap", 0.0):
        return Wrong("softcap", "no softcap")
    if node.attribute("softmax_precision") is not None:
        return Wrong("softmax_precision", "no softmax_precision")
    if node.input_name(PAST_KEY):
        return Wrong("past keys", "past keys and values that a Concat joins in front of it")
    if node.input_name(MASK) and node.attribute("is_causal", 0):
        return Wrong("a mask and is_causal", "only one of the two, such as a causal mask")
    return None


def _unequal_heads(context: RuleContext, node: NodeView) -> Wrong | None:
    keys, values = (_last(context.shape(node.input(index))) for index in (1, 2))
    if isinstance(keys, int) and isinstance(values, int) and keys != values:
        return Wrong(f"keys of {keys} elements and values of {values}", "keys and values of one size")
    return None


def _no_kernel(context: RuleContext, node: NodeView) -> Wrong | None:
    made, shape = context.elem_type(node.output()), context.shape(node.input(0))
    if made is None:
        return None
    if shape is not None and len(shape) > 1 and shape[-2] == 1:
        return _one_query(node, shape)
    if shape is not None and len(shape) == 3 and _is_plain(context, node):
        return None
    if made not in HALF_TYPES:
        return Wrong(f"{kind(made)} output", "float16")
    head = _head(node, shape)
    if head is not None and head not in FUSED_HEADS:
        return Wrong(f"heads of {head} elements", f"heads of {FUSED_HEADS.start} to {FUSED_HEADS.stop - 1}")
    return None


def _one_query(node: NodeView, shape: Shape) -> Wrong | None:
    """Return why a single query is refused, or None: it has no fused kernel, and separate layers need enough heads."""
    batch, heads = shape[0], node.attribute("q_num_heads", 0) if len(shape) == 3 else shape[1]
    if not isinstance(batch, int) or not isinstance(heads, int) or batch * heads >= LEAST_HEADS:
        return None
    return Wrong(f"one query of {heads} heads in {batch} batches", f"{LEAST_HEADS} heads over all batches")


def _is_plain(context: RuleContext, node: NodeView) -> bool:
    """Return whether attention of rank 3 is computed as separate layers."""
    if node.attribute("is_causal", 0) or node.input_name(MASK):
        return False
    makers = [value.producer for index in range(3) if (value := node.input(index)) is not None]
    if any(maker is not None and (maker.is_op("Cast") or context.qdq.get(maker) is not None) for maker in makers):
        return False
    return bool(node.attribute("q_num_heads") == node.attribute("kv_num_heads"))


def _head(node: NodeView, shape: Shape | None) -> int | None:
    if not shape or not isinstance(width := shape[-1], int):
        return None
    heads = node.attribute("q_num_heads", 0) if len(shape) == 3 else 1
    return width // heads if heads else None


def _last(shape: Shape | None) -> int | str | None:
    return shape[-1] if shape else None
