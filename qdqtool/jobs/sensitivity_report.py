"""The effect of quantizing each layer on the outputs: the keys of the JSON report are attributes of these classes."""

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
        sqnr_db: SQNR in dB over all samples; None if there is no noise, or if the float output is 0 everywhere.
        cosine: Cosine of the angle between the two outputs; None if one of them is zero everywhere.
        finite: Whether NaN and infinity occur only where the float model has them too; SQNR and cosine ignore these.
    """

    name: str
    sqnr_db: float | None
    cosine: float | None
    finite: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEffect:
    """The effect of one layer.

    Attributes:
        node: The node that gives the layer its name.
        op_type: Operator of that node.
        graph: Scope of that node; empty for the main graph.
        nodes: All nodes that are quantized or stay in float together, because one kernel computes them.
        noise_share: Noise of this layer alone, divided by the sum over all layers of their noise alone, at the output
            where this share is largest; 1 if the layer makes NaN or infinity.
        worst_sqnr_db: SQNR of the worst output with only this layer quantized; None if no output has noise.
        gain_db: How much the noise of the outputs decreases when only this layer stays in float, in dB.
        cost_share: Share of the layer in the cost of all layers: the mean of its shares of multiply-accumulates,
            weights and layers.
        outputs: Every float output with only this layer quantized.
        outputs_without: Every float output with only this layer in float.
        exclude: The options that leave the layer in float.
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
    """The effect of quantizing each layer.

    Attributes:
        model: The input model.
        mode: Quantization mode.
        target: The target for which pairs were placed.
        samples: Number of samples on which outputs were compared.
        calibration: The origin of the ranges and samples.
        runs: Number of runs of one sample.
        outputs: Every float output with all layers quantized.
        weights_only_db: SQNR of the worst output with the weights of all layers quantized but no activation; None if no
            output has noise.
        activations_only_db: SQNR of the worst output with all activations quantized but no weight.
        sensitivity_file: The file that was written, if any.
        metric: The task metric of the model; None if none was requested.
        nodes: The layers, sorted by their share of the noise, largest first.
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
