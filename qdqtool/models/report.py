"""Reports on changing and running a model, as data: fixed shapes, inlined functions, the reference session."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from qdqtool.results import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomLibrary:
    """A library with operators that ONNX Runtime lacks.

    Attributes:
        library: The file.
        sha256: Its SHA-256.
    """

    library: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Reference:
    """The software and hardware that computed the reference numbers, so that they can be reproduced.

    Attributes:
        runtime: ``onnxruntime``.
        version: Version of the runtime.
        profile: Name of the :class:`Profile`.
        options: Session options that differ from the defaults of the runtime, by name.
        providers: Execution providers, in order.
        cpu: The name that the processor reports.
        cpu_features: Instruction sets that affect the choice of kernels, if the system reports them.
        opset: Opset of the default domain of the checked model.
        ir_version: IR version of the checked model.
        custom_ops: The libraries with further operators that the user named.
        path: ``onnxruntime``, or ``onnxruntime+qdqtool`` if our own core evaluates nodes that ONNX Runtime cannot run.
    """

    runtime: str
    version: str
    profile: str
    options: dict[str, str]
    providers: tuple[str, ...]
    cpu: str
    cpu_features: tuple[str, ...]
    opset: int
    ir_version: int
    custom_ops: tuple[CustomLibrary, ...] = ()
    path: str = "onnxruntime"


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinedFunction:
    """A local function that was inlined.

    Attributes:
        function: Domain and name of the function.
        calls: Number of call paths from the main graph to it.
    """

    function: str
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialized:
    """The effect of fixed inputs on a model.

    Attributes:
        input_shapes: The shapes that were fixed, by input name.
        input_values: The values that were fixed, by input name.
        nodes_before: Number of nodes of the model, including subgraphs.
        nodes_after: Number of nodes after shape arithmetic and ``If`` nodes with a constant condition were folded.
    """

    input_shapes: dict[str, tuple[int, ...]]
    input_values: dict[str, tuple[float, ...]] = field(default_factory=dict)
    nodes_before: int
    nodes_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The multiply-accumulates of a model or an engine in one run, and the bytes of its weights.

    Attributes:
        by_type: Multiply-accumulates by the type of the operands: a quantized type, a float type, or
            ``int4-weight-only`` and the like.
        weight_bytes: Bytes by type, of the tensors that a model stores or of the constants that kernels read.
        float32: Multiply-accumulates by node, of the nodes of a model that compute in float32, the largest first.
            Weight-only nodes are included, since they compute in the type of their activation, and for a built model
            also nodes that fell back to float32.
        converted_to: The half-precision type to which the other nodes of a model were converted, as the model records
            it. None if it records none, and for an engine.
        unknown_kernels: The kernels whose number is not known; they are not in ``by_type``.
        nodes_without_kernel: Labels of nodes that multiply but are named by no kernel; they are not in ``by_type``.
    """

    by_type: dict[str, int]
    weight_bytes: dict[str, int] = field(default_factory=dict)
    float32: dict[str, int] = field(default_factory=dict)
    converted_to: str | None = None
    unknown_kernels: tuple[str, ...] = ()
    nodes_without_kernel: tuple[str, ...] = ()

    def share(self, macs: int) -> float:
        """Return the share of some multiply-accumulates in all that are known."""
        return macs / max(sum(self.by_type.values()), 1)


MOST_FLOAT32 = 0.05
"""Largest share of the multiply-accumulates in float32 without a warning, if the target has half precision."""


def float32_rest(
    work: Work | None, model: str = "", reasons: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Judgement]:
    """Yield a warning if much of the work of a model for TensorRT is in float32.

    Args:
        work: The work; None if it is unknown.
        model: The file of the model; empty if it is quantized in this run.
        reasons: Why nodes could not be converted to half precision, by label.
    """
    share = work.share(sum(work.float32.values())) if work is not None else 0.0
    if work is None or share <= MOST_FLOAT32:
        return
    node = next((node for node in work.float32 if node in reasons), next(iter(work.float32)))
    detail = f"{share:.1%} of the multiply-accumulates run in float32, such as those of '{node}'"
    if work.converted_to is not None:
        reason = f": {reasons[node]}" if node in reasons else ""
        yield Judgement("engine", "warning", f"{detail}, which could not be converted to {work.converted_to}{reason}")
        return
    cast = shlex.join(["qdqtool", "cast", model, "--to", "fp16", "-o", "OUT.onnx"])
    advice = f"`{cast if model else '--high-precision-dtype fp16'}` converts the float32 nodes"
    yield Judgement("engine", "warning", f"{detail}: an engine in half precision may be faster", advice)
