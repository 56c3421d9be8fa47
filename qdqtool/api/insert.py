"""``insert_plan`` for Python code."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from qdqtool.api.keywords import InsertKeywords, checked
from qdqtool.api.options import insert_options, settled
from qdqtool.api.outputs import write_or_keep
from qdqtool.jobs import insert as insert_job
from qdqtool.jobs.insert import InsertOptions, InsertReport
from qdqtool.models.graph.io.any_model import ModelLike, as_source


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
