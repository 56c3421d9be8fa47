"""What a builder tells of an engine, as data: inputs, the precision of nodes, refusals."""

from dataclasses import dataclass
from typing import Literal

Evidence = Literal["aot-dump", "inspector", "none"]


Stage = Literal["validate", "parse", "build", "locked"]


@dataclass(frozen=True, slots=True)
class InputProfile:
    """The shapes that an engine must accept for one dynamic input.

    Attributes:
        name: The input.
        min: Smallest extents.
        opt: The extents that kernels are chosen for.
        max: Largest extents.
        profile: Index of the optimization profile that this is a part of.
    """

    name: str
    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]
    profile: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrecision:
    """The type that one quantized node was planned to run in, and the type that the engine runs it in.

    Attributes:
        name: Label of the node.
        op_type: Its operator.
        graph: Its scope, empty for the main graph.
        planned: The type that its Q/DQ ask for: ``int8``, ``float8e4m3fn``, ``int4-weight-only``, ….
        actual: The type that its kernel multiplies; a float type for a fallback; ``unknown`` without evidence.
        kernel: The kernel that computes it, if the dump names one.
        reason: Why ``actual`` differs from ``planned``, in plain words.
    """

    name: str
    op_type: str
    planned: str
    actual: str
    graph: str = ""
    kernel: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason why the validate gate, the parser or the builder refuses a model.

    Attributes:
        reason: The reason in plain words; starts in lower case, without a full stop.
        message: The builder's own message without CUDA noise; empty where the builder was not asked.
        node: Label of the node at fault; None where the builder names none.
        op_type: Operator of that node.
        hint: How to fix it, with ``MODEL`` for the path of the model; None where that is not known.
        code: Code of the ``validate`` rule that finds it; None where no rule does.
        tensor: Name of the tensor at fault; None where the builder names none.
        explained: Whether ``reason`` explains the message; False where it is the message itself.
        rules: Codes of the ``validate`` rules that may find the node.
    """

    reason: str
    message: str = ""
    node: str | None = None
    op_type: str | None = None
    hint: str | None = None
    code: str | None = None
    tensor: str | None = None
    explained: bool = True
    rules: tuple[str, ...] = ()
