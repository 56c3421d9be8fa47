"""What the calibrate job reports."""

from dataclasses import dataclass

from qdqtool.quantization.cluster.report import ClusterUsed
from qdqtool.quantization.preparation.prepare import PreparationReport
from qdqtool.quantization.ranges.method_choice import MethodTrial
from qdqtool.results import Report
from qdqtool.samples import DataDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenTensor:
    """A tensor that took no value on the data, and why.

    Attributes:
        tensor: Its name.
        graph: Its scope; empty for the main graph.
        reason: Why it took none.
    """

    tensor: str
    graph: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateReport(Report):
    """What calibrate did.

    Attributes:
        model: The input.
        output: The ranges file written.
        method: What the ranges are for.
        target: What placement was made for.
        data: What was run.
        shard: Which shard of the data, as ``I/N``; None for all of it.
        samples: How many samples the ranges are of.
        resumed: How many of them an interrupted run had done before.
        tensors: How many tensors have a range.
        unseen: Tensors that have none.
        preparation: What became of each step that prepares the model.
        chosen: Id of the method that ``auto`` chose for the whole model by its outputs; ``auto`` where it chooses for
            each tensor by itself, and empty for other methods.
        method_trial: The effect of the methods that were tried; None where none was.
        cluster: The workers of a Dask cluster that ran the samples; None where this process did.
    """

    model: str
    output: str
    method: str
    target: str
    data: DataDescription
    shard: str | None
    samples: int
    resumed: int
    tensors: int
    unseen: tuple[UnseenTensor, ...]
    preparation: tuple[PreparationReport, ...]
    chosen: str = ""
    method_trial: MethodTrial | None = None
    cluster: ClusterUsed | None = None
