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
        engine: The engine or model that ran.
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
        engine: The engine or model that ran.
        measured_by: ``gpu``: events on the GPU, which exclude copies; ``host``: the processor's clock, with copies.
        times: Percentiles of the times of one inference.
        clocks: The clocks of the GPU after each round; empty if they are unknown.
        layers: Its layers in the order in which they run; empty if the library does not report them.
    """

    engine: Loaded
    measured_by: Clock
    times: Percentiles
    clocks: tuple[Clocks, ...]
    layers: tuple[LayerTime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport(Report):
    """The times of an engine, and of another engine for comparison.

    Attributes:
        passed: Whether the gate was met; true without a gate.
        data: The sample.
        engine: The engine.
        against: The engine that it is compared with; None without a second engine.
        speedup: How many times as fast the engine is; None without a second engine.
        gate: The gate; None without a gate.
        comparison: The layers of both engines; None without a second engine, or if layers are unknown.
        warnings: Further remarks.
        clocks_unknown: Why the clocks are unknown; empty if they are known.
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
