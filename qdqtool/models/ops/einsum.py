"""Einsum as a matrix product: two operands with a common index that is not in the output."""

from collections import Counter
from dataclasses import dataclass

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ProductOp, QuantizableOp
from qdqtool.models.ops._traits import Traits

ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Equation:
    """The equation of an Einsum with two operands; ``...`` counts as one index."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    output: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Equation | None":
        """Parse an equation; return None unless it has two operands in which each index occurs once."""
        terms, arrow, output = text.replace(" ", "").partition("->")
        operands = [_indices(term) for term in terms.split(",")]
        if len(operands) != 2 or any(len(set(operand)) < len(operand) for operand in operands):
            return None
        left, right = operands
        return cls(left, right, _indices(output) if arrow else _implied(left, right))

    @property
    def summed(self) -> tuple[str, ...]:
        """The indices of both operands that are not in the output: the products are summed over them."""
        return tuple(index for index in self.right if index in self.left and index not in self.output)

    @property
    def kept(self) -> tuple[str, ...]:
        """The indices of the second operand that are in the output but not in the first: the output channels."""
        return tuple(index for index in self.right if index in self.output and index not in self.left)

    def axis(self, index: str, rank: int) -> int | None:
        """Return the axis of an index in the second operand of this rank, or None if the rank does not fit."""
        position, named = self.right.index(index), len(self.right) - (ELLIPSIS in self.right)
        if named > rank or (named < rank and ELLIPSIS not in self.right):
            return None
        return position if ELLIPSIS not in self.right[:position] else rank - len(self.right) + position


class _Einsum(ProductOp):
    """Einsum of an activation with a weight or another activation, like MatMul. Measured with TensorRT for RTX 1.7."""

    op_types = ("Einsum",)
    two_activations = True

    def of(self, node: NodeView) -> QuantizableOp | None:
        """Return this family for a matrix product, None if the node only moves values, otherwise :data:`_OTHER`."""
        if node.is_parametric:
            return _OTHER
        text = _equation(node)
        found = Equation.parse(text)
        if found is not None and found.summed and found.output:
            return self
        return _OTHER if "," in text else None

    def weight_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the output-channel axis, or None for two: TensorRT computes in float with scales along both."""
        found = Equation.parse(_equation(node))
        return found.axis(found.kept[0], rank) if found is not None and len(found.kept) == 1 else None

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the axis of the sum, or None if there are several."""
        found = Equation.parse(_equation(node))
        return found.axis(found.summed[0], rank) if found is not None and len(found.summed) == 1 else None


class _OtherEinsum(QuantizableOp):
    """Einsum with any other equation."""

    op_types = ("Einsum",)
    stays_float = "its equation is no product of two matrices"


def _equation(node: NodeView) -> str:
    text = node.attribute("equation", b"")
    return text.decode("ascii", "replace") if isinstance(text, bytes) else ""


def _indices(term: str) -> tuple[str, ...]:
    before, dots, behind = term.partition(ELLIPSIS)
    return (*before, *([ELLIPSIS] if dots else ()), *behind)


def _implied(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    """Return the output indices without an arrow, as in NumPy: the ellipsis, then all that occur once, sorted."""
    counts = Counter((*left, *right))
    dots = [ELLIPSIS] if ELLIPSIS in counts else []
    return (*dots, *sorted(index for index, count in counts.items() if count == 1 and index != ELLIPSIS))


_OTHER = _OtherEinsum()
TRAITS = {"Einsum": Traits(is_layer=True)}
OP = _Einsum()
