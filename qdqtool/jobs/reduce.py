"""The reduce job: find the smallest model on which a command fails in the same way, and write a bug report."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.jobs.reduction.bug_report import bug_report
from qdqtool.jobs.reduction.commands import Command, Judged, make_command, parse_command
from qdqtool.jobs.reduction.failure import Failure, Kind, Normalizer
from qdqtool.jobs.reduction.options import ReduceOptions
from qdqtool.jobs.reduction.reducer import Reducer
from qdqtool.jobs.reduction.report import FailureFound, ModelSize, ReduceReport, tool_versions
from qdqtool.jobs.reduction.search import Search, Trials, node_count
from qdqtool.jobs.reduction.subgraph import store
from qdqtool.models.graph.io.external import external_files, model_bytes
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.io.output import check_outputs, is_stream, write_output
from qdqtool.models.graph.io.save import SavedFiles, inlined
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk
from qdqtool.models.scratch import ScratchFolder
from qdqtool.models.transforms.specialize import specialize
from qdqtool.samples.feeds import Progress


class ReductionInterruptedError(KeyboardInterrupt):
    """Ctrl-C ended the search; the message describes the model that was written."""


def reduce_model(
    model: str | Path,
    output: str | Path,
    fails: str = "build",
    options: ReduceOptions | None = None,
    progress: Progress | None = None,
) -> ReduceReport:
    """Find a small model on which a command fails as on the given model, and write it with a bug report.

    Args:
        model: The ``.onnx`` file on which the command fails.
        output: The ``.onnx`` file to write. The report is next to it, with the suffix ``.md``, unless an option names
            it.
        fails: ``build`` or ``check``, with options if needed; or another command line, with ``{}`` for the model path.
        options: How to reduce.
        progress: Called with the number of finished runs and the number of remaining nodes.
    """
    options = options or ReduceOptions()
    job = _Job(load_model(model), Path(output), options)
    return job.run(parse_command(fails, options.options), progress or (lambda *_: None))


class _Job:
    """One reduction; after Ctrl-C the smallest model so far is written like a final result."""

    def __init__(self, source: Model, output: Path, options: ReduceOptions) -> None:
        self._source, self._output, self._options = source, output, options
        beside = None if is_stream(output) else output.with_suffix(".md")
        self._report = options.report or beside
        assert source.path is not None
        inputs = [source.path, *external_files(source.proto, source.folder)]
        check_outputs([path for path in (output, self._report) if path is not None], inputs)

    def _refuse_stream(self, command: Command) -> None:
        if command.cuts is not None and is_stream(self._output):
            raise UsageError(
                f"{self._output} is not a regular file, so the baseline cannot be written beside it", hint="name a file"
            )

    def run(self, words: tuple[str, ...], progress: Progress) -> ReduceReport:
        shapes = self._options.input_shapes
        given = offloaded(specialize(self._source, shapes).model if shapes else self._source)
        judged = Judged(self._options.timeout, Normalizer(given.proto), _pattern(self._options.match))
        command = make_command(words, judged)
        self._refuse_stream(command)
        with ScratchFolder("qdqtool-reduce-") as scratch:
            search = Search(given, Trials(command, scratch.path, self._options.max_runs, progress))
            reducer = Reducer(search, command)
            before = reducer.observe()
            try:
                reducer.reduce()
            except KeyboardInterrupt:
                report = self._finish(search, reducer, command, before)
                raise ReductionInterruptedError(
                    f"interrupted; the smallest model so far, of {report.sizes_after.nodes} nodes, is {self._output}"
                ) from None
            return self._finish(search, reducer, command, before)

    def _finish(self, search: Search, reducer: Reducer, command: Command, before: Failure) -> ReduceReport:
        best = search.best
        saved = store(best, self._output)
        companion = command.write_companion(saved.model)
        report = ReduceReport(
            model=str(self._source.path),
            output=str(saved.model),
            external_data=str(saved.data) if saved.data else None,
            baseline=str(companion) if companion is not None else None,
            report=str(self._report) if self._report is not None else None,
            command=command.line(str(saved.model)),
            before=FailureFound.of(before),
            after=FailureFound.of(search.failure),
            sizes_before=ModelSize(nodes=node_count(self._source), bytes=model_bytes(self._source)),
            sizes_after=ModelSize(nodes=node_count(best), bytes=saved.bytes),
            operators=_operators(best),
            steps=tuple(reducer.steps),
            runs=search.counts.runs,
            repeated=search.counts.repeated,
            invalid=search.counts.invalid,
            history=tuple(search.counts.history),
            complete=reducer.is_complete,
            stable=reducer.is_stable,
            short_timeout=before.kind is Kind.TIMEOUT and search.counts.slowest_pass > self._options.timeout / 2,
            versions=tool_versions(),
        )
        self._write_report(report, saved, best)
        return report

    def _write_report(self, report: ReduceReport, saved: SavedFiles, best: Model) -> None:
        if self._report is not None:
            proto = inlined(best) if saved.data is None else None
            write_output(self._report, bug_report(report, proto).encode("utf-8", "replace"))


def _operators(model: Model) -> dict[str, int]:
    """Return the operators of a model with the numbers of their nodes, the most frequent first."""
    counts = Counter(node.op_type for _, container in walk(model.proto) for node in container.node)
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text is not None else None
    except re.error as error:
        raise UsageError(f"--match {text!r} is not a regular expression: {error}") from None
