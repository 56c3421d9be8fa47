"""Reports on changing and running a model, as data: fixed shapes, inlined functions, the reference session."""

from dataclasses import dataclass, field


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
