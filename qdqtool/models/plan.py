"""The quantization plan: the only thing that is handed from deciding what to quantize to editing the model."""

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
    """Where one Q/DQ pair goes.

    Attributes:
        scope: The scope that defines the tensor; empty for the main graph.
        tensor: The tensor's name in that scope.
        uses: The uses that read the dequantized tensor; None for every use, and the graph output if it is one.
    """

    scope: ScopePath
    tensor: str
    uses: tuple[UseRef, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """One Q/DQ pair: where, with which constants, and why.

    Attributes:
        slot: Where.
        params: With which constants.
        reason: Why, in words.
        codes: For a constant that is stored as codes: these, packed as ONNX stores them, where an algorithm has chosen
            others than the nearest ones; None for the nearest ones. Those of large constants are in a temporary file.
    """

    slot: Slot
    params: QuantParams
    reason: str
    codes: Payload | None = None


@dataclass(frozen=True, slots=True, eq=False)
class QuantPlan:
    """Placements in order; no two of them claim the same use of a tensor."""

    placements: tuple[Placement, ...]

    def __iter__(self) -> Iterator[Placement]:
        return iter(self.placements)

    def __len__(self) -> int:
        return len(self.placements)
