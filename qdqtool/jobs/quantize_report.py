"""The result of ``quantize``, as data: the keys of the JSON report are the attributes of these classes."""

from __future__ import annotations

from dataclasses import dataclass

from qdqtool.accuracy.report import Accuracy, BlameReport
from qdqtool.accuracy.search.goal_report import GoalReport, SearchCurve
from qdqtool.linting.findings import Finding
from qdqtool.models.graph.report import ModelFile, NodeReason, OutlineNode, Sizes, WrittenModelReport
from qdqtool.models.report import InlinedFunction, Work
from qdqtool.quantization.calibration_report import CalibrationUsed, PreparationReport
from qdqtool.quantization.report import (
    ActivationRange,
    DegenerateTensor,
    HighPrecisionReport,
    QuantizedTensor,
    WeightScales,
)
from qdqtool.results import Judgement, VerdictWord


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeReport(WrittenModelReport):
    """The result of ``quantize``.

    Attributes:
        model: The input model.
        output: The ``.onnx`` file that was written.
        external_data: The data file of the output, if any.
        mode: Quantization mode.
        target: The target of the output, which passes ``validate`` for it.
        opset_before: Default-domain opset of the input.
        opset_after: Default-domain opset of the output.
        calibration: The origin of the ranges, or of the data of a weight-only mode; None without data.
        preparation: The outcome of each step that prepares the model.
        corrected: Products whose bias was corrected for the rounding of their weight.
        separated: Products for queries, keys and values that were split into three, so that they run quantized.
        quantized: Every pair that was inserted.
        skipped: Every operator that could be quantized but was not, with the reason.
        degenerate: Tensors and weights that no scale represents well, with the action that was taken.
        high_precision: The conversion of float nodes; None if they keep the type of the model.
        findings: The findings of ``validate`` in the output: warnings and advice. The only possible error is QN504, at
            a tensor that ``degenerate`` lists as ``strays``.
        accuracy: The accuracy lost by quantization, measured on a few samples; None without data.
        ranges_file: The ranges file that was written, if any.
        plan_file: The plan file that was written, if any.
        codes_not_in_plan: Number of weights whose codes were chosen with data. The plan file has only the scales of
            these weights, so inserting the plan gives another model.
        sizes: File sizes.
        existing: How existing Q/DQ of the model were handled: ``keep`` or ``replace``; None if it had none. With
            ``keep``, ``accuracy`` compares with the given model, which is partly quantized.
        inlined: The local functions that were inlined, because their calls need separate scales.
        curve_file: The file of the curve of accuracy against quantized share, if any.
        goal: The layers that stay in float for an accuracy target; None without a target, or without such layers.
        search: The models that the search for the accuracy target measured, with their accuracy. None without a search.
            There is no search without a target, or if all layers can be quantized and no curve was requested.
        blame: The layers that make most of the noise at the worst output. None if they were not measured: without data
            or noise, with random data, or if an accuracy target left layers unquantized.
        model_file: Digests of the input; None for a model in memory.
        output_file: Digests of the output; None if it was written to a device or pipe.
        nodes: The operators of the main graph of the output and their connections, for a picture.
        activation_ranges: The range of each quantized activation, and the ranges that other calibration methods would
            choose; empty in weight-only modes.
        weight_scales: The scales by channel of each weight with more than one scale.
        weights: How quantized constants are stored: ``packed`` as codes, or ``qdq`` as floats with a Q and a DQ.
        not_computed: Outputs behind an operator that ONNX Runtime does not know, whose accuracy is therefore unknown.
        has_accuracy_target: Whether ``--min-sqnr`` or ``--max-metric-loss`` was given.
        work: Multiply-accumulates of the output and bytes of its weights, by type; None in reports of earlier versions.
        quantized_share: Share of the multiply-accumulates in nodes whose activation or weight is quantized; None if the
            model has no products.
        verdict: ``failed`` if the model breaks a rule or an output, ``warning`` if a user should know something before
            deployment.
        reasons: Why the verdict is not ``passed``.
    """

    model: str
    output: str
    external_data: str | None
    mode: str
    target: str
    opset_before: int
    opset_after: int
    calibration: CalibrationUsed | None
    preparation: tuple[PreparationReport, ...]
    corrected: tuple[str, ...]
    separated: tuple[str, ...]
    quantized: tuple[QuantizedTensor, ...]
    skipped: tuple[NodeReason, ...]
    degenerate: tuple[DegenerateTensor, ...]
    high_precision: HighPrecisionReport | None
    findings: tuple[Finding, ...]
    accuracy: Accuracy | None
    ranges_file: str | None
    plan_file: str | None
    codes_not_in_plan: int
    sizes: Sizes
    existing: str | None = None
    inlined: tuple[InlinedFunction, ...] = ()
    curve_file: str | None = None
    goal: GoalReport | None = None
    search: SearchCurve | None = None
    blame: BlameReport | None = None
    model_file: ModelFile | None = None
    output_file: ModelFile | None = None
    nodes: tuple[OutlineNode, ...] = ()
    activation_ranges: tuple[ActivationRange, ...] = ()
    weight_scales: tuple[WeightScales, ...] = ()
    weights: str = "packed"
    not_computed: tuple[str, ...] = ()
    has_accuracy_target: bool = False
    quantized_share: float | None = None
    work: Work | None = None
    verdict: VerdictWord = "passed"
    reasons: tuple[Judgement, ...] = ()
