"""QT418: a quantized activation times a weight in blocks, not as a plain product of two matrices."""

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.linting.rules.fixes.stored import Stored, stored
from qdqtool.linting.rules.fixes.unquantize import FLOAT_TENSOR, float_source
from qdqtool.linting.rules.support.fix import Draft, Offer, UnfitError
from qdqtool.linting.rules.support.reach import Operand, Product
from qdqtool.linting.rules.support.rule import REFUSED, Example, Fault, Faults, Rule, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import listed
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.models.targets import Target
from qdqtool.numerics.granularity import Blocked

PLAIN = Offer("safe", "multiplies one matrix of all rows with the weight stored as [K, N], and reshapes the product")

MODEL = """
            agraph (float[%s] x) => (float[%s] y)
            <float s = {0.1}, int8 z = {0}, int8[4,2] w = {1,2,3,4,5,6,7,8}, float[2,2] ws = {0.1,0.2,0.3,0.4}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                wd = DequantizeLinear <axis = 0, block_size = 2> (w, ws)
                y = MatMul (xd, wd)
            }
            """
BATCH, TRANSPOSED = "an activation of more than 2 dimensions", "a transposed weight"


class BlockProduct(Rule):
    """A quantized activation and a weight in blocks are multiplied as two matrices, without batch or transposition.

    Why it matters: TensorRT for RTX fails at other products with the internal error "CHECK(is_constant()) failed".
    Such a product has a quantized activation, and a weight with several scales for each row or column. The activation
    has more than two dimensions, or the weight is transposed. The parser reports nothing. Tools that quantize
    transformers to int4 blocks and 8-bit activations write such models.

    Bad: MatMul of an int8 activation [1, 32, 64] and an int4 weight [64, 32] in blocks of 16; Gemm with transB.

    Good: the activation reshaped to [32, 64] and the weight stored as [K, N]; or a float activation.
    """

    code = "QT418"
    name = "target.block-product"
    affects = impacts(tensorrt_rtx=REFUSED)
    remedy = "reshape the activation to a matrix in front of the product, and store the weight as [K, N]"
    offers = (PLAIN, FLOAT_TENSOR)
    VALID = (Example("a matrix", MODEL % ("8,4", "8,2")),)
    INVALID = (
        Example("a batch of one matrix", MODEL % ("1,8,4", "1,8,2")),
        Example(
            "a Gemm with transB",
            MODEL.replace("MatMul", "Gemm <transB = 1>").replace("[4,2] w", "[2,4] w").replace("axis = 0", "axis = 1")
            % ("8,4", "8,2"),
        ),
    )

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for such products."""
        for product in context.products:
            if product.right is None or not _is_by_blocks(context, product):
                continue
            shape = context.shape(product.node.input(0))
            is_batch = shape is not None and len(shape) > 2
            wrong = [BATCH] * is_batch + [TRANSPOSED] * _is_transposed(product, product.right)
            if wrong:
                message = f"this {product.node.op_type} of quantized data and blocks has {listed(wrong)}"
                expected = "a product of a matrix and a weight [K, N]"
                fixes = (
                    PLAIN.fix("writes it as a plain product of matrices", _write_plain, product),
                    FLOAT_TENSOR.fix("lets it read the float activation", _read_float, product),
                )
                yield Fault(
                    message, product.node, product.node.input(0), found=listed(wrong), expected=expected, fixes=fixes
                )


def _is_by_blocks(context: RuleContext, product: Product) -> bool:
    """Return whether a product has an activation with stored scales and a weight matrix in several blocks."""
    left, right, weight = product.left, product.right, product.node.input(product.weight_index)
    if left is None or right is None or left.dequantize.is_dynamic or not product.node.is_op("MatMul", "Gemm"):
        return False
    shape, scales = context.shape(weight), right.dequantize.scale_shape
    blocks = right.dequantize.granularity
    is_matrix = shape is not None and len(shape) == 2 and scales is not None and len(scales) == 2
    if not is_matrix or not isinstance(blocks, Blocked) or not -2 <= blocks.axis < 2:
        return False
    assert scales is not None
    return scales[blocks.axis] != 1


def _is_transposed(product: Product, weight: Operand) -> bool:
    return bool(weight.between) or bool(product.node.attribute("transB", 0))


def _write_plain(product: Product, draft: Draft) -> None:
    assert product.right is not None
    if _is_transposed(product, product.right):
        _store_transposed(product, product.right, draft)
    shape = draft.context.shape(product.node.input(0))
    if shape is not None and len(shape) > 2:
        _flatten(product, draft)


def _store_transposed(product: Product, weight: Operand, draft: Draft) -> None:
    """Store the codes and scales transposed, in the order in which the product reads them."""
    node, by_attribute = product.node, bool(product.node.attribute("transB", 0))
    transposes = [each.is_op("Transpose") for each in weight.between]
    if not all(transposes) or len(transposes) + by_attribute != 1:
        raise UnfitError("other operators than one Transpose stand between the weight and the product")
    constant = stored(draft.context, weight.dequantize)
    given, entry = constant.parameters, weight.dequantize
    assert isinstance(given.granularity, Blocked)
    if constant.quantizer is not None:
        raise UnfitError("its codes are not stored")
    like = onnx.TensorProto(data_type=constant.tensor.data_type, dims=list(reversed(constant.shape)))
    names = [draft.weights(node.scope, constant.tensor.name, like, lambda: _turned(constant))]
    for index, array in ((1, given.scale), (2, given.zero_point)):
        if array is not None:
            names.append(draft.constant(node.scope, entry.node.input_name(index), array.T))
    axis, size = 1 - given.granularity.axis % 2, given.granularity.block_size
    attributes = {"axis": axis, "block_size": size, "output_dtype": entry.output_dtype}
    made = draft.add(node, "DequantizeLinear", tuple(names), constant.name, **attributes)
    draft.set_input(node, product.weight_index, made)
    if by_attribute:
        draft.set_attribute(node, "transB", 0)


def _turned(constant: Stored) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    return np.ascontiguousarray(read_array(constant.context.model, constant.tensor).T)


def _flatten(product: Product, draft: Draft) -> None:
    context, node = draft.context, product.node
    shape, weight, output = context.shape(node.input(0)), context.shape(node.input(1)), node.output()
    if shape is None or weight is None or output is None or not isinstance(shape[-1], int):
        raise UnfitError("its shapes are unknown")
    extents = [extent if isinstance(extent, int) else -1 for extent in (*shape[:-1], weight[-1])]
    if extents.count(-1) > 1 or 0 in extents:
        raise UnfitError("more than one dimension of the product is open")
    rows = draft.constant(node.scope, f"{output.name}_rows", np.array([-1, shape[-1]]), TensorProto.INT64)
    back = draft.constant(node.scope, f"{output.name}_shape", np.array(extents), TensorProto.INT64)
    draft.set_input(node, 0, draft.add(node, "Reshape", (node.input_name(0), rows), node.input_name(0)))
    made = draft.namer.tensor(f"{output.name}_matrix")
    draft.rename_output(node, made)
    draft.place(node.scope, "Reshape", (made, back), output.name)


def _read_float(product: Product, draft: Draft) -> None:
    assert product.left is not None
    if product.left.between:
        raise UnfitError("other operators stand between the pair and its reader")
    draft.set_input(product.node, 0, float_source(draft, product.left.dequantize, [product.node]))
