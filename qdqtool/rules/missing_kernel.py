"""QT402: layers that a GPU has no kernel for, though it has the types."""

from collections.abc import Iterator

from onnx import TensorProto

from qdqtool.rules._facts import Facts
from qdqtool.rules._rule import REFUSED, Example, Fault, Rule, impacts
from qdqtool.targets import Target

TURING = 75


class MissingKernel(Rule):
    """Every GPU that was asked for has kernels for the quantized layers of the model.

    Why it matters: TensorRT for RTX has no matrix product with float32 output for compute capability 7.5, quantized or
    not ("FP32 GEMM is not supported"). With ``--sm 7.5`` this is found before anything is built.

    Bad: an int8 MatMul that makes float32, for 7.5.

    Good: scales in float16, so that the DQs and the MatMul make float16.
    """

    code = "QT402"
    name = "target.missing-kernel"
    affects = impacts(tensorrt_rtx=REFUSED)
    remedy = "compute the layer in float16 (scales in float16), or leave 7.5 out"
    VALID = (
        Example(
            "float16 (bits 11878 are 0.1) on 7.5",
            """
            agraph (float16[1,16] x) => (float16[1,16] y) <float16 s = {11878}, int8 z = {0}, int64[2] n = {16, 16}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                w = ConstantOfShape <value = float16[1] {11878}> (n)
                wq = QuantizeLinear (w, s, z)
                wd = DequantizeLinear (wq, s, z)
                y = MatMul (xd, wd)
            }
            """,
            compute_capabilities=(75,),
        ),
    )
    INVALID = (
        Example(
            "float32 on 7.5",
            """
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float ws = {0.1}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                wd = DequantizeLinear (w, ws, z)
                y = MatMul (xd, wd)
            }
            """,
            compute_capabilities=(75,),
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Look at the type of what each MatMul and Gemm with a quantized operand reads."""
        if TURING not in target.compute_capabilities:
            return
        for product in facts.products:
            side, node = product.left or product.right, product.node
            if side is None or not node.is_op("MatMul", "Gemm") or facts.elem_type(node.output()) != TensorProto.FLOAT:
                continue
            yield Fault(
                message=f"compute capability 7.5 has no {node.op_type} with float32 output",
                node=node,
                tensor=node.output(),
                found="float32",
                expected="float16",
            )
