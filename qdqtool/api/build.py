"""``build_engine``, ``insert_plan`` and ``insert_encodings`` for Python code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Unpack

from qdqtool.api.checked import values_of, with_keywords
from qdqtool.api.keywords import BuildKeywords, InsertKeywords
from qdqtool.api.outputs import write_or_keep
from qdqtool.api.reports import report_files
from qdqtool.engines.build.build_model import stored
from qdqtool.engines.build.options import build_request
from qdqtool.engines.build.report import EngineReport
from qdqtool.errors import GateError
from qdqtool.jobs import build as build_job
from qdqtool.jobs import insert as insert_job
from qdqtool.jobs.insert import InsertReport
from qdqtool.jobs.request import insert_request
from qdqtool.models.graph.io.load import ModelLike, as_source
from qdqtool.models.graph.model import Model
from qdqtool.options import PYTHON


@with_keywords
def insert_plan(
    model: ModelLike, plan: str | Path, output: str | Path | None = None, **keywords: Unpack[InsertKeywords]
) -> InsertReport:
    """Insert the Q/DQ pairs of a plan file into a model.

    Args:
        model: The model. It is not changed.
        plan: The plan file, TOML or JSON (``docs/reference/files.md``).
        output: The ``.onnx`` file to write; None to get the model as ``output_model`` of the report.
        keywords: Options of ``qdqtool insert``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is not of an accepted kind, or an option is unknown.
        ModelError: The model cannot be read, or the reference loads the model but not the result.
        UsageError: The plan is malformed, does not fit the model, or has something that a target does not accept; or
            the result is larger than 2 GiB and has no output.
        OutputError: The output cannot be written.
        GateError: The opset upgrade is verified, and it changes an output.
    """
    source = as_source(model)
    chosen = insert_request(values_of(keywords, "insert", "insert_plan"), PYTHON)
    return write_or_keep(output, chosen, lambda path, final: insert_job.insert_plan(source, plan, path, final))


@with_keywords
def insert_encodings(
    model: str | Path | Model, encodings: str | Path, output: str | Path, **keywords: Unpack[InsertKeywords]
) -> InsertReport:
    """Insert Q/DQ pairs at the places that placement chooses, with ranges that another tool found.

    Args:
        model: The model. It is not changed.
        encodings: The ranges: a TensorRT calibration cache, an ONNX Runtime calibration table, AIMET encodings or npz.
        output: The ``.onnx`` file to write.
        keywords: Options of ``qdqtool insert``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An option is unknown.
        ModelError: The model cannot be read.
        UsageError: The ranges cannot be read, or do not fit the model.
        OutputError: The output cannot be written.
    """
    chosen = insert_request(values_of(keywords, "insert", "insert_encodings"), PYTHON)
    return insert_job.insert_encodings(model, encodings, output, chosen)


@with_keywords
def build_engine(
    model: ModelLike, output: str | Path, *, backend: str = "auto", **keywords: Unpack[BuildKeywords]
) -> EngineReport:
    """Build an engine from a Q/DQ (or float) model.

    Args:
        model: The model. A model in memory is first written to a temporary file, because builders read files.
        output: The engine to write; ``OUTPUT.manifest.json`` is written next to it.
        backend: ``tensorrt``, ``tensorrt-rtx`` or ``auto`` (the first of the two that is installed).
        keywords: Options of ``qdqtool build``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is not of an accepted kind, or an option is unknown.
        CapabilityError: The backend, or the GPU that it needs, is absent.
        ModelError: The model cannot be read.
        UsageError: A shape, target or path does not fit the model.
        BuildRefusedError: ``validate`` found errors, the parser or the builder refused the model, or the build differs
            from the one that ``locked`` requires.
        BuilderFailedError: The builder crashed or ran out of time.
        OutputError: A file cannot be written. After any of these errors no engine is left.
    """
    with report_files(keywords, "build", model) as files:
        return files.write(_built(model, Path(output), backend, keywords))


def _built(model: ModelLike, output: Path, backend: str, keywords: BuildKeywords) -> EngineReport:
    source = as_source(model)
    chosen = build_request(values_of(keywords, "build", "build_engine"))
    if isinstance(source, Path):
        return build_job.build_engine(source, output, backend=backend, options=chosen)
    if source.path is not None and not source.payloads:
        return build_job.build_engine(source.path, output, backend=backend, options=chosen)
    with stored(source) as file:
        assert file.path is not None
        try:
            report = build_job.build_engine(file.path, output, backend=backend, options=chosen)
        except GateError as error:
            # The commands in hints name a temporary file, which will be removed.
            if error.hint is not None and str(file.path) in error.hint:
                error.hint = "save the model to a file and build the file: then the message names a command for it"
            raise
    return replace(report, model="", model_file=None)
