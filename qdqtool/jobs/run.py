"""The run job: the outputs of an engine on this machine's GPU."""

from __future__ import annotations

from pathlib import Path

from qdqtool.engines.gpu.report import RunReport
from qdqtool.engines.gpu.requirements import require_gpu
from qdqtool.jobs.engine_outputs import load_engine, write_outputs
from qdqtool.models.graph.io.output import check_output
from qdqtool.samples.feeds import Progress
from qdqtool.samples.held import in_files
from qdqtool.samples.request import FileData


def run_engine(
    engine: str | Path, data: FileData | str | Path, output: str | Path, *, progress: Progress | None = None
) -> RunReport:
    """Run an engine on the GPU of this machine, and write its outputs in the layout that ``check --outputs`` reads.

    Args:
        engine: An engine of TensorRT or TensorRT for RTX; or an ONNX model, which ONNX Runtime's provider compiles.
        data: The samples.
        output: The ``.npz`` to write.
        progress: Told of every sample.

    Raises:
        CapabilityError: A GPU, its driver or a package is absent, or a CUDA call fails.
        ModelError: The engine cannot be read, or the runtime does not take it.
        UsageError: A sample does not fit the engine.
        GateError: The engine does not run.
        OutputError: The outputs cannot be written.
    """
    require_gpu()
    path, target = Path(engine), Path(output)
    request = data if isinstance(data, FileData) else FileData(path=Path(data))
    check_output(target, [path, *in_files([request.path])])
    with load_engine(path) as loaded:
        feeds = request.feeds(loaded.runner.inputs)
        shapes = write_outputs(loaded.runner, feeds, target, progress)
    return RunReport(engine=loaded.loaded, data=feeds.description, output=str(target), outputs=shapes)
