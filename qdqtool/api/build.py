"""``build_engine`` for Python code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack, cast

from qdqtool.api.keywords import BuildKeywords, InsertKeywords, checked
from qdqtool.api.options import build_options, insert_options, settled
from qdqtool.api.outputs import write_or_keep
from qdqtool.api.reports import report_files
from qdqtool.engines.build.build_model import stored
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.report import EngineReport
from qdqtool.errors import GateError
from qdqtool.jobs import build as build_job
from qdqtool.jobs import insert as insert_job
from qdqtool.jobs.insert import InsertOptions, InsertReport
from qdqtool.models.graph.io.load import ModelLike, as_source


def insert_plan(
    model: ModelLike,
    plan: str | Path,
    output: str | Path | None = None,
    options: InsertOptions | None = None,
    **keywords: Unpack[InsertKeywords],
) -> InsertReport:
    """Put the Q/DQ pairs of a plan file into a model.

    Args:
        model: The model. It is not changed.
        plan: The plan file, TOML or JSON (``docs/plan.md``).
        output: The ``.onnx`` file to write; None to get the model as ``output_model`` of the report.
        options: How constants and external data are stored.
        keywords: In place of ``options``: options of ``qdqtool insert``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is of no accepted kind, or an option is unknown or given twice.
        ModelError: The model cannot be read, or the reference loads it and not the result.
        UsageError: The plan is malformed, does not fit the model, or has something that a target does not take; or the
            result passes 2 GiB and has no output.
        OutputError: The output cannot be written.
        GateError: The opset upgrade was to be verified and changes an output.
    """
    source = as_source(model)
    chosen = settled(options, checked(keywords, InsertKeywords, "insert_plan"), insert_options)
    return write_or_keep(output, chosen, lambda path, final: insert_job.insert_plan(source, plan, path, final))


def build_engine(
    model: ModelLike,
    output: str | Path,
    *,
    backend: str = "auto",
    options: BuildOptions | None = None,
    **keywords: Unpack[BuildKeywords],
) -> EngineReport:
    """Build an engine from a Q/DQ (or float) model.

    Args:
        model: The model. A model in memory is written to a temporary file first, which builders read.
        output: The engine to write; ``OUTPUT.manifest.json`` is written beside it.
        backend: ``tensorrt``, ``tensorrt-rtx`` or ``auto`` (the first of the two that is installed).
        options: How to build.
        keywords: In place of ``options``: options of ``qdqtool build``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is of no accepted kind, or an option is unknown or given twice.
        CapabilityError: The backend, or the GPU that it needs, is absent.
        ModelError: The model cannot be read.
        UsageError: A shape, target or path does not fit the model.
        BuildRefusedError: ``validate`` found errors, the parser or the builder refused the model, or the build is not
            the one that ``locked`` asks for.
        BuilderFailedError: It crashed or ran out of time.
        OutputError: A file cannot be written. In every case no engine is left.
    """
    with report_files(keywords, "build", model) as files:
        return files.write(_built(model, Path(output), backend, options, keywords))


def _built(
    model: ModelLike, output: Path, backend: str, options: BuildOptions | None, keywords: BuildKeywords
) -> EngineReport:
    source = as_source(model)
    chosen = settled(options, checked(cast("dict[str, Any]", keywords), BuildKeywords, "build_engine"), build_options)
    if isinstance(source, Path):
        return build_job.build_engine(source, output, backend=backend, options=chosen)
    if source.path is not None and not source.payloads:
        return build_job.build_engine(source.path, output, backend=backend, options=chosen)
    with stored(source) as file:
        assert file.path is not None
        try:
            report = build_job.build_engine(file.path, output, backend=backend, options=chosen)
        except GateError as error:
            # The commands in hints name a file that is about to go.
            if error.hint is not None and str(file.path) in error.hint:
                error.hint = "save the model to a file and build that: the message then says what to run on it"
            raise
    return replace(report, model="", model_file=None)
