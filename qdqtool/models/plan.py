"""The quantization plan. The code that decides what to quantize gives only a plan to the code that edits."""

from collections.abc import Iterator
from dataclasses import dataclass

from qdqtool.models.payload import Payload
from qdqtool.numerics.scheme import QuantParams

ScopePath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UseRef:
    """One use of a tensor: input ``index`` of the node with the output names ``node`` in scope ``scope``."""

    scope: ScopePath
    node: tuple[str, ...]
    index: int


@dataclass(frozen=True, slots=True)
class Slot:
    """The tensor, and the uses of it, that get a Q/DQ pair.

    Attributes:
        scope: The scope that defines the tensor; empty for the main graph.
        tensor: Name of the tensor in that scope.
        uses: The uses that read the dequantized tensor; None for all uses, including a graph output.
    """

    scope: ScopePath
    tensor: str
    uses: tuple[UseRef, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """One Q/DQ pair: its position, its constants, and the reason for it.

    Attributes:
        slot: The tensor and its uses.
        params: The constants.
        reason: The reason for the pair.
        codes: The codes of a constant, packed as ONNX stores them, if an algorithm chose them; None for the nearest
            codes. Codes of large constants are in a temporary file.
    """

    slot: Slot
    params: QuantParams
    reason: str
    codes: Payload | None = None


@dataclass(frozen=True, slots=True, eq=False)
class QuantPlan:
    """Placements in order. Each use of a tensor belongs to at most one placement."""

    placements: tuple[Placement, ...]

    def __iter__(self) -> Iterator[Placement]:
        return iter(self.placements)

    def __len__(self) -> int:
        return len(self.placements)
