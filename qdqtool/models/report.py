"""What changing and running a model tells, as data: fixed shapes, inlined functions, the reference session."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reference:
    """The software and hardware that computed the reference numbers, to reproduce them.

    Attributes:
        runtime: ``onnxruntime``.
        version: Its version.
        profile: Name of the :class:`Profile`.
        options: Session options that differ from the runtime's defaults, by name.
        providers: Execution providers, in order.
        cpu: The name that the processor reports.
        cpu_features: Instruction sets that change which kernels run, where the system tells.
        opset: Opset of the default domain of the checked model.
        ir_version: Its IR version.
        path: ``onnxruntime``, or ``onnxruntime+qdqtool`` where nodes that ONNX Runtime cannot run are evaluated by our
            own core.
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
    """One local function that was inlined.

    Attributes:
        function: Its domain and name.
        calls: In how many ways the main graph called it.
    """

    function: str
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialized:
    """The effect of fixed inputs on a model.

    Attributes:
        input_shapes: The shapes that were fixed, by input name.
        input_values: The values that were fixed, likewise.
        nodes_before: Nodes of the model, in all bodies.
        nodes_after: Nodes after shape arithmetic and ``If`` nodes with a constant condition were folded.
    """

    input_shapes: dict[str, tuple[int, ...]]
    input_values: dict[str, tuple[float, ...]] = field(default_factory=dict)
    nodes_before: int
    nodes_after: int
