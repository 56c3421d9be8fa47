"""What ``quantize`` did, as data: the JSON report is these classes, key by key."""

from __future__ import annotations

from dataclasses import dataclass

from qdqtool.accuracy.report import Accuracy, BlameReport
from qdqtool.accuracy.search.goal_report import GoalReport, SearchCurve
from qdqtool.linting.findings import Finding
from qdqtool.models.graph.report import ModelFile, NodeReason, OutlineNode, Sizes, WrittenModelReport
from qdqtool.models.report import InlinedFunction
from qdqtool.quantization.calibration_report import CalibrationUsed, PreparationReport
from qdqtool.quantization.report import (
    ActivationRange,
    DegenerateTensor,
    HighPrecisionReport,
    QuantizedTensor,
    WeightScales,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeReport(WrittenModelReport):
    """What quantize did.

    Attributes:
        model: The input.
        output: The ``.onnx`` file written.
        external_data: The data file beside it, if any.
        mode: Quantization mode.
        target: What the output is for; it passes ``validate`` for it.
        opset_before: Default-domain opset of the input.
        opset_after: That of the output.
        calibration: Where the ranges came from, or the data of a weight-only mode; None without data.
        preparation: What became of each step that prepares the model.
        corrected: Products whose bias makes up for what their weight lost.
        separated: Products for queries, keys and values at once that became three, so that they run quantized.
        quantized: Every pair that was put in.
        skipped: Every operator that could be quantized and was not, with the reason.
        degenerate: Tensors and weights that no scale serves well, with what was done.
        high_precision: What became of what stays float; None where it stays in the type of the model.
        findings: What ``validate`` says of the output: warnings and advice. The only error is QN504, at a tensor that
            ``degenerate`` names as ``strays``.
        accuracy: What quantizing cost on a few of the samples; None where there is no data.
        ranges_file: The ranges file written, if any.
        plan_file: The plan file written, if any.
        codes_not_in_plan: Weights whose codes data chose: of these the plan file has the scales only, and inserting it
            gives another model.
        sizes: File sizes.
        existing: What became of the Q/DQ that the model had: ``keep`` or ``replace``; None where it had none. Where
            they stay, ``accuracy`` compares with the model as given, which is quantized in part.
        inlined: The local functions that were inlined, because several calls need several scales.
        curve_file: The file of the curve of accuracy against quantized share, if any.
        goal: The layers that stay in float for an accuracy that was asked for; None where none was, or every layer can
            be quantized for it.
        search: The states of the search for the accuracy that was asked for, with what each keeps; None where nothing
            was searched: without such a limit, and where every layer can be quantized and no curve was asked for.
        blame: The layers that make most of the noise at the worst output; None where nothing was measured: without
            data, with random data, where no output has noise, and where an accuracy target left layers unquantized.
        model_file: Digests of the input; None for a model in memory.
        output_file: Digests of the output; None where it went into a device or pipe.
        nodes: The operators of the main graph of the output and what connects them, for a picture.
        activation_ranges: The range of each quantized activation, and those that the calibration methods choose; empty
            in weight-only modes.
        weight_scales: The scales by channel of each weight that has several.
        weights: How quantized constants are stored: ``packed`` as codes, or ``qdq`` as floats behind a Q and a DQ.
        has_accuracy_target: Whether ``--min-sqnr`` or ``--max-metric-loss`` was given.
        quantized_share: Share of the multiply-accumulates whose product reads a DequantizeLinear; None where the model
            has no products.
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
    has_accuracy_target: bool = False
    quantized_share: float | None = None
