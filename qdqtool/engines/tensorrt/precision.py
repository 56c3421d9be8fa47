"""Compare planned and actual types: find the kernel of each quantized node and the type in which it computes.

The *inputs* of a kernel decide: float operands prove a fallback. The outputs prove nothing, because the ahead-of-time
dump shows the result of the product before the epilogue that converts it to codes.
"""

import re

from qdqtool.engines.report import NodePrecision
from qdqtool.engines.tensorrt.builder import Built
from qdqtool.engines.tensorrt.child import plain_name
from qdqtool.engines.tensorrt.kernels import FLOATS, UNKNOWN, Kernel, is_quantized
from qdqtool.engines.tensorrt.planned_types import WEIGHT_ONLY, PlannedNode
from qdqtool.models.graph.index.view import NodeView, Scope
from qdqtool.models.graph.scope import display
from qdqtool.numerics.granularity import Blocked

_MATH = re.compile(r"correlation|gemm|conv|fusion|attention|mha|matmul|matrix|fullyconnected", re.IGNORECASE)
# The fused attention kernel of RTX is called _gemm_mha_v2 but has layer type kgen, as pointwise kernels have.
_MATH_NAME = re.compile(r"^_gemm|mha", re.IGNORECASE)
# The names of products in the name of a fused kernel: Fc for MatMul, Corr and Conv for convolutions, Deco for
# deconvolutions.
_PRODUCT = re.compile(r"Fc|Corr|Conv|Gemm|Deco")
_PATH = " | "


def compare(planned: list[PlannedNode], built: Built) -> tuple[NodePrecision, ...]:
    """Return the precision of each planned node."""
    return tuple(_line(node, built) for node in planned)


def engine_name(node: NodeView) -> str:
    """Return the parser's name of a node: its own name or, if it has none, ``node_of_`` and its first output."""
    proto = node.proto
    return plain_name(proto.name or f"node_of_{proto.output[0] if proto.output else ''}")


def _line(entry: PlannedNode, built: Built) -> NodePrecision:
    kernel = product_kernel(entry.node, built.kernels)
    actual = computes_in(kernel) if kernel is not None else UNKNOWN
    planned = entry.planned
    reason = None if actual == planned else _reason(entry, kernel, built)
    return NodePrecision(
        name=entry.node.label,
        op_type=entry.node.op_type,
        graph=display(entry.node.scope.path),
        planned=planned,
        actual=actual,
        kernel=kernel.name if kernel is not None else None,
        reason=reason,
    )


def product_kernel(node: NodeView, kernels: tuple[Kernel, ...]) -> Kernel | None:
    """Return the kernel that multiplies for a node, or None if no kernel names the node."""
    # Several kernels may name one node: a MatMul with per-axis scales has a gemm kernel and a __myl_Mul kernel for the
    # scales. The first one is wanted, which multiplies the matrices.
    named = [kernel for kernel in kernels if names_node(kernel, node)]
    math = [kernel for kernel in named if is_product(kernel)]
    own = [kernel for kernel in math if engine_name(node) in kernel.name]
    return next(iter([*own, *math, *named]), None)


def is_product(kernel: Kernel) -> bool:
    """Whether a kernel multiplies matrices or convolves, according to its kind or name."""
    return bool(_MATH.search(kernel.layer_type) or _MATH_NAME.search(kernel.name))


def multiplies(kernel: Kernel) -> bool:
    """Whether a kernel multiplies matrices or convolves, possibly as one step of a generated kernel."""
    return is_product(kernel) or _PRODUCT.search(kernel.name) is not None


def names_node(kernel: Kernel, node: NodeView) -> bool:
    """Whether a kernel computes a node or a part of it."""
    return any(_is_node(entry, node) for entry in kernel.nodes)


def _is_node(entry: str, node: NodeView) -> bool:
    path, function = _call_path(node.scope)
    # The parser writes "node | body (attribute) | owner (If)" for nodes in branches, and adds "call (function)" at the
    # end for nodes in local functions.
    expected = _PATH.join([engine_name(node), *path])
    if function is None:
        return entry == expected
    head, _, rest = entry.partition(expected + _PATH)
    return not head and rest.split(_PATH)[0].endswith(f" ({function})")


def _call_path(scope: Scope) -> tuple[list[str], str | None]:
    """Return the callers that the parser appends to node names in ``scope``, and the local function around it."""
    path: list[str] = []
    here: Scope | None = scope
    while here is not None:
        if here.is_function:
            return path, plain_name(here.container.name)
        if here.owner is not None and here.owner.is_op("If"):
            attribute = here.path[-1].rsplit(".", 1)[-1]
            path += [f"{plain_name(here.container.name)} ({attribute})", f"{engine_name(here.owner)} (If)"]
        here = here.parent
    return path, None


def computes_in(kernel: Kernel) -> str:
    """Return the type in which a kernel multiplies: the type of its operands if two are quantized, else a float type.

    The type is ``…-weight-only`` for a kernel that reads one packed constant, unpacks it and multiplies floats. It is
    ``unknown`` if the builder does not give the type of an operand.
    """
    if UNKNOWN in kernel.input_types:
        return UNKNOWN
    low = [kind for kind in (*kernel.input_types, *kernel.weight_types) if is_quantized(kind)]
    if not is_product(kernel):
        return _fused_quantized_type(kernel) or _float_type(kernel)
    if low.count("float4e2m1") >= 2:
        # With two fp4 operands, the float8e4m3fn tensors are their block scales.
        low = ["float4e2m1", "float4e2m1"]
    if len(low) >= 2 and not _dequantizes_first(kernel):
        return " x ".join(dict.fromkeys(low))
    packed = [kind for kind in kernel.weight_types if is_quantized(kind)]
    if packed and len(low) == 1:
        return packed[0] + WEIGHT_ONLY
    return _float_type(kernel)


def _fused_quantized_type(kernel: Kernel) -> str | None:
    """Return the type of a product in a generated kernel that itself quantizes the activation, or None."""
    # Measured with RTX on the last Conv of a squeeze-and-excitation block (4 to 96 channels): its kernel
    # __myl_MulAddReluMulMinMaxRounCastCorrMulAddMove (…MulCastCorr… in fp8) reads floats and int8 weights. The Cast
    # before the product (Corr) is the end of the Q, and there is no Cast and Mul of a DQ.
    steps = _steps_before(kernel)
    packed = {kind for kind in kernel.weight_types if is_quantized(kind)}
    if len(steps) != 1 or len(packed) != 1 or "CastMul" in steps[0] or not steps[0].endswith("Cast"):
        return None
    return packed.pop()


def _dequantizes_first(kernel: Kernel) -> bool:
    # The name of a fused kernel lists its steps in order: __myl_CastMulCastFc_… dequantizes (Cast, Mul) before the
    # product (Fc).
    steps = _steps_before(kernel) if "fusion" in kernel.layer_type else []
    return bool(steps) and "CastMul" in steps[0]


def _steps_before(kernel: Kernel) -> list[str]:
    """Return the steps before each product in the name of a fused kernel."""
    return [re.split(r"\W", part)[-1] for part in _PRODUCT.split(kernel.name)[:-1]]


def _float_type(kernel: Kernel) -> str:
    kinds = [kind for kind in (*kernel.input_types, *kernel.output_types) if kind in FLOATS]
    return kinds[0] if kinds else UNKNOWN


def _reason(entry: PlannedNode, kernel: Kernel | None, built: Built) -> str:
    if built.evidence == "none":
        return "the builder gave no layer information"
    if kernel is None:
        return "no kernel names this node: it was folded away or merged into another one"
    if UNKNOWN in kernel.input_types:
        return "TensorRT does not report the types that its kernel reads (for example with dynamic shapes)"
    return _fault_of_the_model(entry) or _fault_of_the_kernel(entry, kernel)


def _fault_of_the_model(entry: PlannedNode) -> str | None:
    if entry.weight_only:
        return _weight_only_reason(entry)
    axis = entry.wrong_axis
    faults = (
        (entry.one_sided, "only one of its two operands is quantized; quantize the other one too"),
        # Measured with RTX: a float deconvolution for any axis and for per-tensor scales.
        (entry.node.is_op("ConvTranspose"), "ConvTranspose always runs in float, even with Q/DQ"),
        (axis is not None, f"its weight has scales along axis {axis}, which is not the output-channel axis"),
        (entry.per_axis_activation, "its activation has more than one scale; kernels take per-tensor activations"),
        (entry.cast, "there is a Cast between a DequantizeLinear and the node"),
    )
    return next((words for is_so, words in faults if is_so), None)


def _weight_only_reason(entry: PlannedNode) -> str:
    weight = next(operand for operand in entry.operands if operand.dequantize is not None)
    granularity = weight.dequantize.granularity if weight.dequantize is not None else None
    if not entry.op.is_matrix_product:
        return "only its weight is quantized, and it has no weight-only kernel; quantize its activation too"
    # int4 stays packed (runtime_fusion) with two or more blocks along K; for per-axis int4, a kernel dequantizes the
    # weight first.
    if weight.format == "int4" and not isinstance(granularity, Blocked):
        return "int4 weights stay packed only with block scales; the weight is dequantized before a float kernel"
    return "its weight is dequantized by a kernel of its own, and the product is computed in float"


def _fault_of_the_kernel(entry: PlannedNode, kernel: Kernel) -> str:
    # Both operands are quantized here, to different formats: with one format, the kernel would run as planned.
    if computes_in(kernel) in entry.formats:
        return f"both operands are converted to {computes_in(kernel)} before an {computes_in(kernel)} kernel"
    if is_product(kernel) and any(map(is_quantized, (*kernel.input_types, *kernel.weight_types))):
        return "the kernel reads quantized data but dequantizes it before it multiplies"
    return "the builder chose a float kernel"
