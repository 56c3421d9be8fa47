"""The type of a family of quantizable operators: which inputs get Q/DQ pairs, or why none does."""

from typing import ClassVar

from qdqtool.models.graph.index.view import NodeView


class QuantizableOp:
    """One operator family. Subclasses are class data; they override a method where the answer depends on the node.

    Attributes:
        domain: Domain of the operators; empty for ONNX's own.
        op_types: Operators of that domain.
        activation_inputs: Inputs that take per-tensor pairs.
        stays_float: Why it gains nothing from pairs, in words that follow the name of a node; None where it gains.
        on_request: Whether an operator that gains nothing is quantized all the same for a user who names it.
        no_kernel: Types of its output, as ``TensorProto.DataType``, for which TensorRT for RTX 1.7.1 has no kernel on
            any GPU.
        no_turing_kernel: Types for which it has none on compute capability 7.5.
    """

    domain: ClassVar[str] = ""
    op_types: ClassVar[tuple[str, ...]]
    activation_inputs: ClassVar[tuple[int, ...]] = (0,)
    stays_float: ClassVar[str | None] = None
    on_request: ClassVar[bool] = False
    no_kernel: ClassVar[tuple[int, ...]] = ()
    no_turing_kernel: ClassVar[tuple[int, ...]] = ()

    def of(self, node: NodeView) -> "QuantizableOp | None":
        """Return what is known of one node: the family, unless the attributes of the node make it something else."""
        del node
        return self

    def quantized_inputs(self, node: NodeView) -> tuple[int, ...]:
        """Return the inputs of ``node`` that take a pair: activations first, then the weight."""
        del node
        return self.activation_inputs
