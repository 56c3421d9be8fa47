"""The run job: compute the outputs of an engine on the GPU of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.output_file import OutputWriter, storable
from qdqtool.engines.build.engine_map import EngineMap, has_manifest, read_map
from qdqtool.engines.build.manifest import fingerprint
from qdqtool.engines.gpu.report import Loaded, RunReport
from qdqtool.engines.gpu.requirements import require_gpu
from qdqtool.engines.gpu.runner import Runner
from qdqtool.engines.gpu.runners import library_of, open_runner
from qdqtool.errors import UsageError
from qdqtool.models.graph.io.output import check_output
from qdqtool.models.graph.model import Model
from qdqtool.models.scratch import ScratchFolder
from qdqtool.samples.feeds import Feeds, Progress
from qdqtool.samples.in_memory import in_files
from qdqtool.samples.request import FileData


@dataclass(frozen=True, slots=True)
class LoadedEngine:
    """An engine on the GPU.

    Attributes:
        runner: Runs the engine.
        loaded: A description of the engine, for reports.
        stored: The content of its manifest; None without a manifest.
    """

    runner: Runner
    loaded: Loaded
    stored: EngineMap | None

    @property
    def planned(self) -> dict[str, int] | None:
        """Number of quantized nodes by type; None without a manifest."""
        return self.stored.planned if self.stored is not None else None

    @property
    def nodes(self) -> dict[str, tuple[str, ...]]:
        """The ONNX nodes of each kernel, by its name; empty without a manifest."""
        return {kernel.name: kernel.nodes for kernel in self.stored.kernels} if self.stored is not None else {}


@dataclass(frozen=True, slots=True)
class EngineRun:
    """How ``check`` ran the engine."""

    loaded: Loaded
    warnings: tuple[str, ...]


@contextmanager
def load_engine(path: Path) -> Iterator[LoadedEngine]:
    """Load an engine, or an ONNX model, on the GPU while the block runs."""
    gpu = require_gpu()
    stored = read_map(path) if has_manifest(path) else None
    library = library_of(path, stored.backend if stored is not None else None)
    with open_runner(path, library) as runner:
        loaded = Loaded(file=str(path), library=library, version=runner.version, gpu=gpu)
        yield LoadedEngine(runner, loaded, stored)


def write_outputs(runner: Runner, feeds: Feeds, output: Path, progress: Progress | None) -> dict[str, tuple[int, ...]]:
    """Run all samples and write the outputs in the layout that ``check --outputs`` reads.

    Returns:
        The shape of each output over all samples.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    with OutputWriter(output) as writer:
        for done, sample in enumerate(feeds, start=1):
            for name, array in runner.run(sample).items():
                rows = storable(name, sample.without_filler(array))
                writer.add(name, rows)
                before = shapes.get(name, (0,))[0]
                shapes[name] = (before + len(rows), *rows.shape[1:])
            if progress is not None:
                progress(done, len(feeds))
        writer.save()
    return shapes


@contextmanager
def engine_outputs(
    options: CheckOptions, feeds: Feeds, model: Model
) -> Iterator[tuple[CheckOptions, EngineRun | None]]:
    """Run the engine of a check; in the block, its outputs take the place of saved outputs.

    Yields:
        The options with a temporary file in ``outputs``, and the run; without an engine, the same options and None.
    """
    if options.engine is None:
        yield options, None
        return
    with ScratchFolder("qdqtool-run-") as scratch:
        file = scratch.path / "outputs.npz"
        with load_engine(options.engine) as engine:
            _require_same(
                "inputs", sorted(feeds.description.shapes), sorted(each.name for each in engine.runner.inputs)
            )
            names = [output.name for output in model.proto.graph.output]
            _require_same("outputs", sorted(names), sorted(engine.runner.outputs))
            write_outputs(engine.runner, feeds, file, None)
            ran = EngineRun(engine.loaded, tuple(_of_another_file(engine, model)))
        yield replace(options, outputs=file), ran


def _of_another_file(engine: LoadedEngine, model: Model) -> Iterator[str]:
    """Yield a warning if the engine was built from another model: its outputs are then not those of this model."""
    if engine.stored is None or model.path is None or engine.stored.model_sha256 == fingerprint(model.path).sha256:
        return
    yield (
        f"{engine.loaded.file} was built from another model file than {model.path}: its manifest names "
        f"'{engine.stored.model}'"
    )


def _require_same(what: str, model: list[str], engine: list[str]) -> None:
    if model != engine:
        raise UsageError(
            f"the engine has the {what} {', '.join(engine) or 'none'}; the model has {', '.join(model) or 'none'}",
            hint="check the model that the engine was built from; its manifest names it",
        )


def run_engine(
    engine: str | Path, data: FileData | str | Path, output: str | Path, *, progress: Progress | None = None
) -> RunReport:
    """Run an engine on the GPU of this machine, and write its outputs in the layout that ``check --outputs`` reads.

    Args:
        engine: An engine of TensorRT or TensorRT for RTX; or an ONNX model, which ONNX Runtime's provider compiles.
        data: The samples.
        output: The ``.npz`` to write.
        progress: Called after each sample, with the number of finished samples and of all samples.
    """
    require_gpu()
    path, target = Path(engine), Path(output)
    request = data if isinstance(data, FileData) else FileData(path=Path(data))
    check_output(target, [path, *in_files([request.path])])
    with load_engine(path) as loaded:
        feeds = request.feeds(loaded.runner.inputs)
        shapes = write_outputs(loaded.runner, feeds, target, progress)
    return RunReport(engine=loaded.loaded, data=feeds.description, output=str(target), outputs=shapes)
