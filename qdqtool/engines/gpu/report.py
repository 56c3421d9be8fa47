"""The reports of ``run`` and ``bench`` as data: the keys of the JSON are the attributes of these classes."""

from dataclasses import dataclass

from qdqtool.engines.gpu.clocks import Clocks
from qdqtool.engines.gpu.comparison import LayerComparison, Speedup, SpeedupResult
from qdqtool.engines.gpu.runner import Clock, LayerTime
from qdqtool.engines.gpu.timing import Percentiles
from qdqtool.engines.tensorrt.gpus import Gpu
from qdqtool.results import Report
from qdqtool.samples.report import DataDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A file that ran on the GPU.

    Attributes:
        file: The engine, or the ONNX model.
        library: The library that ran it.
        version: Its version.
        gpu: The GPU.
    """

    file: str
    library: str
    version: str
    gpu: Gpu

    def __str__(self) -> str:
        return f"{self.library} {self.version} on {self.gpu.name}, compute capability {self.gpu.compute_capability}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport(Report):
    """Outputs of an engine that were written.

    Attributes:
        engine: What ran.
        data: The samples.
        output: The file with the outputs.
        outputs: Shape of each output over all samples.
    """

    engine: Loaded
    data: DataDescription
    output: str
    outputs: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTimes:
    """The times of one engine.

    Attributes:
        engine: What ran.
        measured_by: ``gpu`` for events on the GPU, without copies; ``host`` for the processor's clock, with copies.
        times: Percentiles of the times of one inference.
        clocks: The clocks of the GPU after each round; empty where they are not known.
        layers: Its layers in the order in which they run; empty where the library does not tell.
    """

    engine: Loaded
    measured_by: Clock
    times: Percentiles
    clocks: tuple[Clocks, ...]
    layers: tuple[LayerTime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport(Report):
    """The times of an engine, and of one that it is compared with.

    Attributes:
        passed: Whether the gate was met, or there was none.
        data: The sample.
        engine: The engine.
        against: The engine that it is compared with; None for none.
        speedup: How many times as fast it is; None for none.
        gate: The gate; None for none.
        comparison: The layers of both; None without a second engine, or where layers are not known.
        warnings: Further remarks.
        clocks_unknown: Why the clocks are not known; empty where they are.
    """

    passed: bool
    data: DataDescription
    engine: EngineTimes
    against: EngineTimes | None
    speedup: Speedup | None
    gate: SpeedupResult | None
    comparison: LayerComparison | None
    warnings: tuple[str, ...]
    clocks_unknown: str
