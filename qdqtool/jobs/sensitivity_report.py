"""What quantizing each layer does to the outputs, as data: the JSON report is these classes, key by key."""

from __future__ import annotations

from dataclasses import dataclass, field

from qdqtool.accuracy.report import LayerMetric, MetricEffect
from qdqtool.models.graph.report import ModelFile
from qdqtool.quantization.calibration_report import CalibrationUsed
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEffect:
    """One output, compared with the same output of the float model.

    Attributes:
        name: Name of the output.
        sqnr_db: Its SQNR in dB over all samples; None where it is undefined: no noise, or a float output of zeros.
        cosine: Cosine of the angle between the two outputs; None where one of them is zero everywhere.
        finite: Whether NaN and infinity occur only where the float model has them; the SQNR and the cosine leave out
            such elements.
    """

    name: str
    sqnr_db: float | None
    cosine: float | None
    finite: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEffect:
    """What one layer does.

    Attributes:
        node: The node that gives the layer its name.
        op_type: Its operator.
        graph: Its scope; empty for the main graph.
        nodes: All nodes that are quantized or stay in float together, since one kernel computes them.
        noise_share: Its share of the noise that all layers make alone, at the output where it is largest; 1 where it
            makes NaN or infinity.
        worst_sqnr_db: SQNR of the worst output with only this layer quantized; None where no output has noise.
        gain_db: By how much the noise of the outputs drops when only this layer stays in float.
        cost_share: Its share of the cost of all layers: the mean of multiply-accumulates, weights and number.
        outputs: Every float output with only this layer quantized.
        outputs_without: Every float output with only this layer in float.
        exclude: The options that leave it in float.
        metric: The task metric with only this layer quantized, and with only it in float; None without a metric.
    """

    node: str
    op_type: str
    graph: str
    nodes: tuple[str, ...]
    noise_share: float
    worst_sqnr_db: float | None
    gain_db: float
    cost_share: float
    outputs: tuple[OutputEffect, ...]
    outputs_without: tuple[OutputEffect, ...]
    exclude: tuple[str, ...]
    metric: LayerMetric | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityReport(Report):
    """What quantizing each layer does.

    Attributes:
        model: The input.
        mode: Quantization mode.
        target: The target for which pairs were placed.
        samples: Number of samples on which outputs were compared.
        calibration: The origin of the ranges and samples.
        runs: How often one sample was run.
        outputs: Every float output with all layers quantized.
        weights_only_db: SQNR of the worst output with the weights of all layers quantized, and no activation; None
            where no output has noise.
        activations_only_db: The same with all activations quantized, and no weight.
        sensitivity_file: The file that was written, if any.
        metric: The task metric of the model; None where none was asked for.
        nodes: The layers, the one with the largest share of the noise first.
        model_file: Digests of the input; None for a model in memory.
    """

    model: str
    mode: str
    target: str
    samples: int
    calibration: CalibrationUsed | None
    runs: int
    outputs: tuple[OutputEffect, ...]
    weights_only_db: float | None
    activations_only_db: float | None
    sensitivity_file: str | None = None
    metric: MetricEffect | None = None
    nodes: tuple[NodeEffect, ...] = field(default_factory=tuple)
    model_file: ModelFile | None = None
