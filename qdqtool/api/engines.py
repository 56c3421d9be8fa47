"""``run_engine`` and ``bench_engine`` for Python code."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from qdqtool.api.any_data import DataLike
from qdqtool.api.checked import values_of, with_keywords
from qdqtool.api.keywords import RunKeywords
from qdqtool.engines.gpu.report import BenchReport, RunReport
from qdqtool.engines.gpu.speedup_gate import parse_speedup
from qdqtool.engines.gpu.timing import TimingOptions
from qdqtool.jobs import bench as bench_job
from qdqtool.jobs import run as run_job
from qdqtool.jobs.request import file_data
from qdqtool.samples.feeds import Progress


@with_keywords
def run_engine(
    engine: str | Path,
    data: DataLike,
    output: str | Path,
    *,
    progress: Progress | None = None,
    **keywords: Unpack[RunKeywords],
) -> RunReport:
    """Run an engine on the GPU of this machine, and write its outputs in the layout that ``check --outputs`` reads.

    Args:
        engine: An engine, or an ONNX model for the provider of TensorRT for RTX.
        data: The samples.
        output: The ``.npz`` file to write.
        progress: Called after each sample, with the number of finished samples and of all samples.
        keywords: Options of ``qdqtool run``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is not of an accepted kind, or an option is unknown.
        CapabilityError: A GPU, its driver or a package is absent.
        UsageError: The data does not fit the engine.
        GateError: The engine does not run.
        OutputError: The outputs cannot be written.
    """
    samples = file_data(values_of(keywords, "run", "run_engine", data=data))
    return run_job.run_engine(engine, samples, output, progress=progress)


def bench_engine(  # noqa: PLR0913 -- one argument for each option
    engine: str | Path,
    *,
    against: str | Path | None = None,
    data: str | Path | None = None,
    rounds: int = 10,
    runs: int = 50,
    warm_up: int = 20,
    profiled: int = 20,
    speedup: str | None = None,
    progress: Progress | None = None,
) -> BenchReport:
    """Time an engine on the GPU of this machine, in turn with another engine to compare it with.

    Args:
        engine: An engine, or an ONNX model for the provider of TensorRT for RTX.
        against: The engine of the float model.
        data: Samples; only the first is run. None for a random sample.
        rounds: Number of times that the engines take turns.
        runs: Number of timed inferences in each round.
        warm_up: Number of inferences that run before these and are not timed.
        profiled: Number of inferences with a profiler after all rounds, which give the mean times of layers.
        speedup: The gate, such as ``>=1.2x``; None for no gate.
        progress: Called for each turn of an engine, with the number of finished turns and of all turns.

    Raises:
        CapabilityError: A GPU, its driver or a package is absent.
        UsageError: A number is illegal, or the data does not fit the engine.
        GateError: An engine does not run.
    """
    return bench_job.bench_engine(
        engine,
        against=against,
        data=Path(data) if data is not None else None,
        timing=TimingOptions(rounds=rounds, runs=runs, warm_up=warm_up, profiled=profiled),
        speedup=parse_speedup(speedup) if speedup is not None else None,
        progress=progress,
    )
