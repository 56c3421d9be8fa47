"""What ``check`` found, as data: the JSON report is these classes, key by key."""

from dataclasses import dataclass

from qdqtool.backends.ort_cpu import Reference
from qdqtool.pipeline.data import DataDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Limits that a model must keep. None switches a gate off; the other gates of a check are always on.

    Attributes:
        min_sqnr: Each float output has at least this signal to noise ratio against the baseline, in dB.
        min_cosine: Each float output has at least this cosine with the baseline's.
        max_steps: No quantized tensor, and no output that a DQ makes, is further than this many quantization steps
            from the baseline.
        max_weight_steps: No packed weight is further than this many steps from the baseline's float weight, unless it
            was clipped. Rounding to nearest is never off by more than the default of half a step.
    """

    min_sqnr: float | None = None
    min_cosine: float | None = None
    max_steps: float | None = None
    max_weight_steps: float | None = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One gate that was active.

    Attributes:
        name: ``own-core``, ``finite``, ``pairs``, ``weights``, ``min-sqnr``, ``min-cosine`` or ``max-steps``.
        requires: What it asks for, in words.
        passed: Whether it held.
        detail: What was found.
    """

    name: str
    requires: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputResult:
    """One output of the model, over all samples.

    Attributes:
        name: Its name.
        nonfinite: NaN and infinite elements that it had.
        sqnr_db: Signal to noise ratio against the baseline; None without a baseline and where it is no number.
        cosine: Cosine with the baseline's output; None likewise.
        max_abs: Largest absolute difference; None without a baseline.
        max_steps: The same in steps of the DQ that makes the output; None where none does.
        exact: Whether every element equals the baseline's; None without a baseline.
    """

    name: str
    nonfinite: int
    sqnr_db: float | None = None
    cosine: float | None = None
    max_abs: float | None = None
    max_steps: float | None = None
    exact: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryResult:
    """One place where the model becomes quantized, against the same tensor of the baseline, over all samples.

    Attributes:
        node: Label of the QuantizeLinear, or of the DequantizeLinear of a packed weight.
        graph: Its scope; empty for the main graph.
        tensor: Name of the tensor in the baseline.
        kind: ``activation`` or ``weight``.
        format: Number format.
        granularity: Over which elements a scale is shared, in words.
        max_steps: Largest distance of the dequantized value from the baseline, in quantization steps.
        mean_steps: Mean distance.
        index: Where the largest distance is.
        sqnr_db: Signal to noise ratio of the dequantized tensor; None where it is no number.
        clipped: Elements whose baseline value lies outside the range of the format.
        elements: Elements compared.
    """

    node: str
    graph: str
    tensor: str
    kind: str
    format: str
    granularity: str
    max_steps: float
    mean_steps: float
    index: tuple[int, ...]
    sqnr_db: float | None
    clipped: int
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDifference:
    """A Q or DQ whose result differs from our own core's.

    Attributes:
        node: Its label.
        op_type: QuantizeLinear or DequantizeLinear.
        graph: Its scope; empty for the main graph.
        different: Elements that differ.
        elements: Elements compared.
        max_steps: Largest difference in steps.
        example: The first element that differs, in words.
    """

    node: str
    op_type: str
    graph: str
    different: int
    elements: int
    max_steps: float
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotObserved:
    """Something that was not checked, and why."""

    node: str
    graph: str
    tensor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFault:
    """A documented difference between ONNX Runtime and the ONNX text that this model meets.

    Attributes:
        fault: What ONNX Runtime does.
        nodes: Labels of the nodes that meet it.
        elements: Elements that it changes.
    """

    fault: str
    nodes: tuple[str, ...]
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QdqCount:
    """How many Q and DQ nodes there are, and how many were evaluated by our own core."""

    total: int
    checked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The verdict on one model.

    Attributes:
        passed: Whether every active gate held.
        model: The file.
        baseline: The float model's file; None where there was none.
        reference: What computed the numbers.
        data: What was fed.
        gates: Every gate that was active.
        failures: Why the check failed, one line each; empty when it passed.
        outputs: Every output.
        boundaries: Every quantized tensor that has a counterpart in the baseline, worst first.
        qdq: Count of Q and DQ nodes.
        differences: Q and DQ nodes that differ from our own core.
        known_faults: Documented faults of ONNX Runtime that were met; they are no failures.
        not_observed: What was not checked.
        warnings: What else there is to know.
    """

    passed: bool
    model: str
    baseline: str | None
    reference: Reference
    data: DataDescription
    gates: tuple[GateResult, ...]
    failures: tuple[str, ...]
    outputs: tuple[OutputResult, ...]
    boundaries: tuple[BoundaryResult, ...]
    qdq: QdqCount
    differences: tuple[NodeDifference, ...]
    known_faults: tuple[KnownFault, ...]
    not_observed: tuple[NotObserved, ...]
    warnings: tuple[str, ...]
