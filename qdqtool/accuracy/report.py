"""The measured accuracy of a quantized model, as data: outputs, samples, the task metric, layers."""

from dataclasses import dataclass

from qdqtool.quantization.report import TensorAccuracy, ZeroedTensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRecall:
    """The share of the predictions of one class that are right, in percent.

    Attributes:
        label: The class.
        predictions: Number of predictions with this label.
        value: Recall of the model.
        baseline: Recall of the baseline; None without a baseline.
        is_lost: Whether the recall fell by more than chance explains.
    """

    label: int
    predictions: int
    value: float
    baseline: float | None = None
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """The task metric of the model.

    Attributes:
        name: The metric, or the name of the function.
        output: The output that was measured; None if a function of the user got all outputs.
        unit: Unit of the values: ``%``, or empty if there is none or it is unknown.
        loss_unit: Unit of the losses: ``percentage points``, ``%``, or empty.
        predictions: Number of predictions; for a function of the user, number of samples.
        distinct_predictions: The same without copies of inputs; None for a function of the user.
        value: Value of the model.
        baseline: Value of the baseline; None without a baseline.
        loss: Loss of the model against the baseline; negative if the model is better.
        saved: Value of the outputs that were saved elsewhere; None without such outputs.
        saved_loss: Loss of these outputs against the model in the reference session.
        chance: Why the model is no better than guessing, in words; None if it is better, or if this is unknown.
        baseline_chance: The same for the baseline.
        classes: Recall of each class that has predictions, the largest loss first; empty if the metric has no recall.
    """

    name: str
    output: str | None
    unit: str
    loss_unit: str
    predictions: int
    value: float
    baseline: float | None
    loss: float | None
    saved: float | None
    saved_loss: float | None
    chance: str | None = None
    baseline_chance: str | None = None
    distinct_predictions: int | None = None
    classes: tuple[ClassRecall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstSample:
    """One sample at which an output is far from the baseline's.

    Attributes:
        number: Its number in the data, from 0; for a model with a fixed batch, the number of the batch.
        files: The files of the sample, relative to the folder of the data; empty if the data is not in such files.
        sqnr_db: SQNR of this sample alone; None if the baseline's output is 0 everywhere.
        max_abs: Largest absolute difference.
        zero_reference: Whether only the baseline's output is 0 everywhere: the sample ranks below those with an SQNR.
        nonfinite: Number of elements that are NaN or infinite in one output only; such a sample ranks last.
    """

    number: int
    files: tuple[str, ...]
    sqnr_db: float | None
    max_abs: float
    zero_reference: bool = False
    nonfinite: int = 0

    @property
    def rankable_db(self) -> float | None:
        """Its SQNR; None if it is ranked below every sample with an SQNR."""
        return None if self.nonfinite else self.sqnr_db

    @property
    def goodness(self) -> tuple[float, float]:
        """The key by which samples are sorted, the worst first."""
        if self.nonfinite:
            return 0, -self.nonfinite
        return (1, -self.max_abs) if self.sqnr_db is None else (2, self.sqnr_db)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDistribution:
    """How the SQNR of single samples is distributed. Each sample counts in one of the first four numbers.

    Attributes:
        samples: Samples with an SQNR; the quantiles are over these samples, interpolated linearly.
        exact: Samples without an error.
        zero_reference: Samples in which the baseline's output is 0 everywhere, and the output is not.
        nonfinite: Samples with NaN or infinities that the baseline does not have at the same places.
        min_db: The lowest SQNR. This and the other values in dB are None if no sample has an SQNR.
        lower_quartile_db: A quarter of the samples has a lower SQNR.
        median_db: Half of the samples have a lower SQNR.
        upper_quartile_db: A quarter of the samples has a higher SQNR.
        max_db: The highest SQNR.
    """

    samples: int
    exact: int
    zero_reference: int
    nonfinite: int
    min_db: float | None = None
    lower_quartile_db: float | None = None
    median_db: float | None = None
    upper_quartile_db: float | None = None
    max_db: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputAccuracy:
    """One output of the quantized model, compared with the float model.

    Attributes:
        name: Name of the output.
        sqnr_db: ``10 log10(sum(a**2) / sum((a - x)**2))`` in dB over all samples; None if it is undefined: equal
            outputs, or a float output of zeros.
        exact: Whether every element is equal.
        finite: Whether the quantized model has NaN or infinity only where the float model has it.
        other_shapes: Number of samples for which the two models gave different shapes. These samples are left out.
        float_nonfinite: Number of NaN and infinite elements in the float model's output; these elements are left out.
        standard_error_db: Standard error of ``sqnr_db`` as an estimate for unlimited data; None if one sample decides.
        float32_db: ``sqnr_db`` of the same model before its unquantized nodes were converted to half precision; None if
            it is undefined, or nothing was converted.
    """

    name: str
    sqnr_db: float | None
    exact: bool
    finite: bool
    other_shapes: int = 0
    float_nonfinite: int = 0
    standard_error_db: float | None = None
    float32_db: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The accuracy of a quantized model.

    Attributes:
        samples: Number of samples that were run: the first samples of the data to measure on.
        held_back: Whether these are hold-out samples of the calibration data.
        validation: The validation data that the samples are from; None if they are calibration samples.
        reason: Why the samples are calibration samples that were also used to choose something; empty if they are not.
        refitted: Whether the written model differs from the measured model: it has the ranges of all samples, the
            measured model only those of the selection samples.
        outputs: Every output that is a float tensor.
        worst: The pairs with the lowest SQNR, worst first.
        zeroed: Activations with one scale and a share of more than :data:`ZEROED` of values that become 0.
        metric: The task metric on all samples to measure on; None if none was requested.
        problem: Why nothing could be measured; empty if the accuracy was measured.
    """

    samples: int
    held_back: bool = False
    validation: str | None = None
    reason: str = ""
    refitted: bool = False
    outputs: tuple[OutputAccuracy, ...] = ()
    worst: tuple[TensorAccuracy, ...] = ()
    zeroed: tuple[ZeroedTensor, ...] = ()
    metric: MetricResult | None = None
    problem: str = ""

    @property
    def part(self) -> str:
        """The kind of the samples, in one word."""
        return "validation" if self.validation is not None else "hold-out" if self.held_back else "calibration"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlamedLayer:
    """One layer that makes much of the noise.

    Attributes:
        node: The node that gives the layer its name.
        op_type: Its operator.
        graph: Its scope; empty for the main graph.
        nodes: All nodes that are quantized or stay in float together, since one kernel computes them.
        noise_share: Its share, 0 to 1, in the sum of the noise that each layer alone makes at the worst output.
        alone_db: SQNR of that output with only this layer quantized.
        without_db: The same with only this layer in float; None if it was not measured, or has no noise.
        dominant: Whether it makes more noise than all other layers together: with it in float, less than half remains.
        macs_share: Its share of the multiply-accumulates of all layers.
        weights_share: Its share of their weights.
        exclude: Patterns for ``--nodes-to-exclude`` that match its nodes.
    """

    node: str
    op_type: str
    graph: str
    nodes: tuple[str, ...]
    noise_share: float
    alone_db: float | None
    without_db: float | None
    dominant: bool
    macs_share: float
    weights_share: float
    exclude: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoiseCause:
    """One part of the quantization, and the accuracy without it.

    Attributes:
        cause: ``activations``, ``weights``, ``biases``, ``clipping activations`` or ``per-tensor weights``.
        sites: Number of pairs or stored tensors.
        undone_db: SQNR of the worst output with this part in float, or with scales for channels; None without noise.
        clipped_share: Largest share of the values of a tensor that its pair clips.
    """

    cause: str
    sites: int
    undone_db: float | None
    clipped_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameReport:
    """The layers that make the noise at the worst output.

    Attributes:
        output: The output; empty if nothing was measured.
        whole_db: Its SQNR with all layers quantized, on the samples of this measurement; None if it has no noise.
        samples: Number of these samples.
        runs: Number of runs of one sample.
        layers: The layers that were found, largest share first.
        rest_share: The largest share of the noise that a layer not in ``layers`` can make.
        left_out: Pairs that could not be switched, and why, in words.
        float_db: SQNR of the output with all pairs off against the baseline; None if not compared, or equal.
        problem: Why nothing could be measured; empty if the noise was measured.
        causes: The parts of the quantization, the most costly first; empty in a report of ``quantize``.
        calibrator: The calibration method that the model records, if any.
    """

    output: str = ""
    whole_db: float | None = None
    samples: int = 0
    runs: int = 0
    layers: tuple[BlamedLayer, ...] = ()
    rest_share: float = 0.0
    left_out: tuple[str, ...] = ()
    float_db: float | None = None
    problem: str = ""
    causes: tuple[NoiseCause, ...] = ()
    calibrator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMetric:
    """The task metric of one layer.

    Attributes:
        alone: Its value with only this layer quantized.
        without: Its value with only this layer in float.
    """

    alone: float
    without: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricEffect:
    """The task metric of the float model and of the quantized model.

    Attributes:
        name: The metric, or the name of a function of the user.
        output: The output that was measured; None if a function of the user got all outputs.
        unit: Unit of the values; may be empty.
        loss_unit: Unit of the loss; may be empty.
        samples: Number of samples that the models were measured on: the selection samples.
        predictions: Number of predictions on these samples; for a function of the user, number of samples.
        float_value: Value of the float model.
        value: Value with all layers quantized.
        loss: Loss with all layers quantized against the float model.
        chance: Why the float model is no better than guessing, in words; None if it is better, or if this is unknown.
        layer_samples: Number of samples that each layer was measured on: the first of ``samples``.
        layer_predictions: Number of predictions on the samples for layers.
        layer_float_value: Value of the float model on the samples for layers.
        layer_value: Value with all layers quantized, on the samples for layers.
    """

    name: str
    output: str | None
    unit: str
    loss_unit: str
    samples: int
    predictions: int
    float_value: float
    value: float
    loss: float
    chance: str | None
    layer_samples: int
    layer_predictions: int
    layer_float_value: float
    layer_value: float
