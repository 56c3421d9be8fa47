"""The bench job: time an engine on the GPU of this machine, and compare it with a float engine."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from qdqtool.engines.gpu.clocks import ClockMeter
from qdqtool.engines.gpu.comparison import (
    clock_warning,
    compare_layers,
    judge,
    require_comparable,
    require_order,
    speedup_of,
)
from qdqtool.engines.gpu.report import BenchReport, EngineTimes
from qdqtool.engines.gpu.requirements import require_gpu
from qdqtool.engines.gpu.runner import Runner, with_nodes
from qdqtool.engines.gpu.speedup_gate import SpeedupGate
from qdqtool.engines.gpu.timing import MeasuredEngine, TimingOptions, random_sample, time_in_turn
from qdqtool.errors import UsageError
from qdqtool.jobs.run import LoadedEngine, load_engine
from qdqtool.samples.feeds import Feeds, Progress, load_feeds
from qdqtool.samples.sample import Sample


def bench_engine(
    engine: str | Path,
    *,
    against: str | Path | None = None,
    data: str | Path | None = None,
    timing: TimingOptions | None = None,
    speedup: SpeedupGate | None = None,
    progress: Progress | None = None,
) -> BenchReport:
    """Time an engine on the GPU of this machine, in turn with another engine to compare it with.

    Args:
        engine: An engine of TensorRT or TensorRT for RTX; or an ONNX model, which ONNX Runtime's provider compiles.
        against: The engine of the float model to compare with; it must be of the same kind.
        data: Samples; only the first is run. Default is a random sample with the shapes of the engine.
        timing: The numbers of rounds and inferences.
        speedup: The speedup gate.
        progress: Called for each turn of an engine, with the number of finished turns and of all turns.
    """
    timing = timing or TimingOptions()
    if speedup is not None and against is None:
        raise UsageError(
            "--speedup needs a second engine", hint="give the engine of the float model: `--against FLOAT.engine`"
        )
    require_gpu()
    with ExitStack() as stack:
        paths = [Path(engine), *([Path(against)] if against is not None else [])]
        engines = [stack.enter_context(load_engine(path)) for path in paths]
        for other in engines[1:]:
            require_comparable(engines[0].runner, other.runner)
            require_order(engines[0].planned, other.planned)
        first = engines[0].runner
        feeds = random_sample(first.example_inputs()) if data is None else load_feeds(Path(data), first.inputs, 1)
        pairs = [(each.runner, _fed(each.runner, next(iter(feeds)))) for each in engines]
        meter = stack.enter_context(ClockMeter())
        measured = time_in_turn(pairs, timing, meter, progress)
        times = [
            _times(each, found, sample, timing)
            for each, found, (_, sample) in zip(engines, measured, pairs, strict=True)
        ]
    return _report(times, measured, speedup, feeds, meter)


def _fed(runner: Runner, sample: Sample) -> Sample:
    """Return the sample with the input types of an engine, which may differ between the two engines."""
    return Sample.like(sample, {spec.name: sample[spec.name].astype(spec.dtype) for spec in runner.inputs})


def _times(engine: LoadedEngine, measured: MeasuredEngine, sample: Sample, timing: TimingOptions) -> EngineTimes:
    return EngineTimes(
        engine=engine.loaded,
        measured_by=engine.runner.clock,
        times=measured.percentiles(),
        clocks=tuple(measured.clocks),
        layers=with_nodes(engine.runner.profile(sample, runs=timing.profiled), engine.nodes),
    )


def _report(
    times: list[EngineTimes], measured: list[MeasuredEngine], gate: SpeedupGate | None, feeds: Feeds, meter: ClockMeter
) -> BenchReport:
    speedup = speedup_of(*measured) if len(measured) > 1 else None
    is_known = len(times) > 1 and all(each.layers for each in times)
    comparison = compare_layers(*(each.layers for each in times)) if is_known else None
    result = judge(gate, speedup, comparison) if gate is not None and speedup is not None else None
    warning = clock_warning(measured)
    return BenchReport(
        passed=result is None or result.passed,
        data=feeds.description,
        engine=times[0],
        against=times[1] if len(times) > 1 else None,
        speedup=speedup,
        gate=result,
        comparison=comparison,
        warnings=() if warning is None else (warning,),
        clocks_unknown="" if any(each.clocks for each in measured) else meter.reason,
    )
