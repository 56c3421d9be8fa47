"""The report of ``check`` as data: the keys of the JSON report are the attributes of these classes."""

from collections.abc import Iterable
from dataclasses import dataclass

from qdqtool.accuracy.report import BlameReport, MetricResult, SampleDistribution, WorstSample
from qdqtool.models.graph.report import ModelFile
from qdqtool.models.report import Reference
from qdqtool.results import Judgement, Report, VerdictWord
from qdqtool.samples.report import DataDescription

DID_NOT_RUN = "it did not run on this data"
"""The reason for a node that no sample reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One gate that was active.

    Attributes:
        name: ``own-core``, ``finite``, ``pairs``, ``activations``, ``weights``, ``constants``, ``structure``,
            ``accuracy``, ``min-sqnr``, ``min-cosine``, ``min-agreement``, ``max-steps`` or ``max-metric-loss``;
            ``outputs-finite``, ``outputs-min-sqnr``, … for outputs that were saved elsewhere.
        requires: Its condition, in words.
        passed: Whether the condition held.
        detail: The findings in brief.
        failures: Why the condition did not hold, one line each; empty if it held.
        warnings: Faults that would be failures on real data; empty if the inputs were not random.
        limit: The number that each output must keep: dB for ``accuracy`` and ``min-sqnr``; None for other conditions.
        missed_by: Names of the outputs that miss the condition.
    """

    name: str
    requires: str
    passed: bool
    detail: str
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    limit: float | None = None
    missed_by: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, *, name: str, requires: str, failures: Iterable[str], detail: str, warnings: Iterable[str] = ()
    ) -> "GateResult":
        """Make the result of a gate that passes if there are no failures."""
        lines = tuple(failures)
        return cls(
            name=name, requires=requires, passed=not lines, detail=detail, failures=lines, warnings=tuple(warnings)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputResult:
    """One output over all samples: of the model against the baseline, or a saved output against the model.

    Attributes:
        name: Its name.
        nonfinite: Number of NaN and infinite elements.
        sqnr_db: Signal to noise ratio; None if there is no baseline or the ratio is undefined.
        cosine: Cosine similarity of the two outputs; None in the same cases.
        max_abs: Largest absolute difference; None without a baseline.
        max_steps: Largest difference in steps of the DQ that makes the output; None without a DQ.
        exact: Whether every element is equal; None without a baseline.
        agreement: Share of the elements that are equal, for an integer or boolean output; None for others.
        zero_reference: Whether the reference is 0 everywhere, so that the output has no SQNR.
        other_shapes: Samples for which the two shapes differ; they are left out.
        differing_shapes: The shapes of the output and of the reference in the first such sample.
        worst_samples: The samples that are furthest off, the worst first; empty for outputs that are no floats, and for
            exact ones.
        sample_sqnr: How the SQNR of single samples is distributed; None without a baseline, and for outputs that are no
            floats.
    """

    name: str
    nonfinite: int
    sqnr_db: float | None = None
    cosine: float | None = None
    max_abs: float | None = None
    max_steps: float | None = None
    exact: bool | None = None
    agreement: float | None = None
    zero_reference: bool = False
    other_shapes: int = 0
    differing_shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    worst_samples: tuple[WorstSample, ...] = ()
    sample_sqnr: SampleDistribution | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstOutput:
    """The output that is furthest from the baseline's.

    Attributes:
        name: Its name.
        gate: The strictest gate that judged it.
        sqnr_db: Its SQNR; None for an output without one.
        agreement: Share of the elements that are equal; None for float outputs.
        max_abs: Its largest error if the reference is 0 everywhere, so that there is no SQNR; else None.
    """

    name: str
    gate: str
    sqnr_db: float | None
    agreement: float | None
    max_abs: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedOutputs:
    """Outputs that were computed elsewhere, compared with the reference session on the same data.

    Attributes:
        file: The file with the outputs, or the engine that gave them.
        outputs: Every output.
        computed_by: The library and GPU that ran the engine; empty for a file with outputs.
    """

    file: str
    outputs: tuple[OutputResult, ...]
    computed_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryResult:
    """One quantized tensor against the same tensor of the baseline, over all samples.

    Attributes:
        node: Label of the QuantizeLinear, or of the DequantizeLinear of a packed weight.
        graph: Its scope; empty for the main graph.
        tensor: Name of the tensor in the baseline.
        kind: ``activation``, ``weight``, or ``bias`` for a bias with the scale of the sums that it is added to.
        format: Number format.
        granularity: Which elements share a scale, in words.
        max_steps: Largest distance of the dequantized value from the baseline, in quantization steps.
        mean_steps: Mean distance.
        index: Index of the element with the largest distance.
        sqnr_db: Signal to noise ratio of the dequantized tensor; None if it is undefined.
        clipped: Elements whose baseline value lies outside the range of the format.
        elements: Elements compared.
        judged_by_data: Whether the model notes that the codes of this weight were chosen with data and are not the
            nearest. Then the error must be the noted one, and ``max_weight_steps`` does not apply.
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
    judged_by_data: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDifference:
    """A Q or DQ whose result differs from the result of qdqtool.

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
    """Something that was not checked, and why.

    Attributes:
        node: Label of the node.
        graph: Its scope; empty for the main graph.
        tensor: Name of the tensor.
        reason: Why it was not checked.
    """

    node: str
    graph: str
    tensor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFault:
    """A documented difference between ONNX Runtime and the ONNX text that occurred in this model.

    Attributes:
        fault: The behavior of ONNX Runtime.
        nodes: Labels of the nodes where it occurred.
        elements: Number of elements that it changes.
    """

    fault: str
    nodes: tuple[str, ...]
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedNode:
    """A node that ONNX Runtime cannot run unchanged.

    Attributes:
        node: Its label.
        op_type: Its operator.
        graph: Its scope; empty for the main graph.
        evaluated_by: ``qdqtool``, or ``onnxruntime-float32`` for a node in half precision that ran in float32.
        reason: The reason.
        type: ``bfloat16`` or ``float16``, the type that the results were rounded to; empty if qdqtool evaluated it.
    """

    node: str
    op_type: str
    graph: str
    evaluated_by: str
    reason: str
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QdqCount:
    """The numbers of Q and DQ nodes.

    Attributes:
        total: All nodes.
        checked: Nodes that ran in ONNX Runtime and were compared with qdqtool.
        own: Nodes that ONNX Runtime cannot run, so that qdqtool evaluated them.
    """

    total: int
    checked: int
    own: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Report):
    """The verdict on one model.

    Attributes:
        passed: Whether every active gate held.
        model: The file.
        baseline: The float model's file; None without a baseline.
        model_file: Digests of the model's file; None for a model in memory.
        baseline_file: Digests of the baseline's file; None without a baseline, or if it was in memory.
        reference: The session that computed the numbers.
        data: The data.
        gates: Every gate that was active.
        failures: Why the check failed, one line each; empty when it passed.
        outputs: Every output.
        saved_outputs: Outputs that were computed elsewhere; None without such outputs.
        written: The file in which the outputs of the reference were saved; None if they were not saved.
        metric: The task metric; None if none was requested.
        boundaries: Every quantized tensor with a counterpart in the baseline, worst first.
        qdq: Count of Q and DQ nodes.
        evaluated: Every node that ONNX Runtime did not run unchanged, and what evaluated it instead.
        differences: Q and DQ nodes that differ from qdqtool.
        known_faults: Documented faults of ONNX Runtime that occurred; they are not failures.
        not_observed: Nodes and outputs that were not checked, and why.
        warnings: Further remarks, and faults that would be failures on real data.
        worst_output: The output furthest from the baseline's; None without a baseline, or if all outputs are exact.
        blame: The layers that cost that output most; None if they were not searched for.
        baseline_qdq: Number of Q and DQ nodes of the baseline, which should be 0.
        empty_limits: Limits that nearly every model keeps, such as ``--min-cosine -1``.
        verdict: ``failed`` if a gate was missed, ``warning`` if a user should know something before deployment.
        reasons: Why the verdict is not ``passed``.
    """

    passed: bool
    model: str
    baseline: str | None
    reference: Reference
    data: DataDescription
    gates: tuple[GateResult, ...]
    failures: tuple[str, ...]
    outputs: tuple[OutputResult, ...]
    saved_outputs: SavedOutputs | None
    written: str | None
    metric: MetricResult | None
    boundaries: tuple[BoundaryResult, ...]
    qdq: QdqCount
    evaluated: tuple[EvaluatedNode, ...]
    differences: tuple[NodeDifference, ...]
    known_faults: tuple[KnownFault, ...]
    not_observed: tuple[NotObserved, ...]
    warnings: tuple[str, ...]
    worst_output: WorstOutput | None = None
    blame: BlameReport | None = None
    model_file: ModelFile | None = None
    baseline_file: ModelFile | None = None
    baseline_qdq: int = 0
    empty_limits: tuple[str, ...] = ()
    verdict: VerdictWord = "passed"
    reasons: tuple[Judgement, ...] = ()
