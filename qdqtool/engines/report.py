"""Facts about an engine from its builder, as data: inputs, the precision of nodes, refusals."""

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
        opt: The extents for which kernels are chosen.
        max: Largest extents.
        profile: Index of the optimization profile to which these shapes belong.
    """

    name: str
    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]
    profile: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrecision:
    """The planned type of one quantized node, and the type in which the engine runs it.

    Attributes:
        name: Label of the node.
        op_type: Its operator.
        graph: Its scope, empty for the main graph.
        planned: The type that its Q/DQ request: ``int8``, ``float8e4m3fn``, ``int4-weight-only``, ….
        actual: The type in which its kernel multiplies: a float type for a fallback, ``unknown`` without evidence.
        kernel: The kernel that computes it; None if the dump names none.
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
        reason: The reason in plain words; it starts in lower case and has no full stop.
        message: The builder's own message without CUDA noise; empty if the builder was not run.
        node: Label of the node at fault; None if the builder names none.
        op_type: Operator of that node.
        hint: How to fix the model, with ``MODEL`` for its path; None if that is unknown.
        code: Code of the ``validate`` rule that finds the fault; None if no rule does.
        tensor: Name of the tensor at fault; None if the builder names none.
        explained: Whether ``reason`` explains the message; False if it only repeats the message.
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
