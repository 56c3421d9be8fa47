"""The jobs that read, check or change a model as it is, for Python code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Unpack

from qdqtool.api.any_data import DataLike, take_request
from qdqtool.api.keywords import CheckKeywords, InsertKeywords, checked
from qdqtool.api.options import check_options, insert_options, settled
from qdqtool.api.outputs import write_or_keep
from qdqtool.checking.options import CheckOptions
from qdqtool.checking.report import CheckReport
from qdqtool.data.feeds import Progress
from qdqtool.data.request import DataRequest
from qdqtool.diff.report import DiffReport
from qdqtool.graph.io.any_model import ModelLike, as_source
from qdqtool.jobs import check as check_job
from qdqtool.jobs import diff as diff_job
from qdqtool.jobs import insert as insert_job
from qdqtool.jobs import inspect as inspect_job
from qdqtool.jobs import validate as validate_job
from qdqtool.jobs.check_blame import BlameRequest
from qdqtool.jobs.insert import InsertOptions, InsertReport
from qdqtool.jobs.inspect_report import InspectReport
from qdqtool.linting.report import ValidateReport


def check_model(
    model: ModelLike,
    *,
    baseline: ModelLike | None = None,
    data: DataLike | DataRequest | None = None,
    options: CheckOptions | None = None,
    progress: Progress | None = None,
    blame: BlameRequest | bool | None = None,
    **keywords: Unpack[CheckKeywords],
) -> CheckReport:
    """Check the numbers of a model.

    Every Q and DQ is evaluated by our own core on the values it really had in the reference session and must agree in
    every bit; no output may have NaN or infinities; every DQ must undo the Q before it. With a baseline, outputs and
    quantized tensors are compared with it on the same feeds.

    Args:
        model: The model.
        baseline: The float model.
        data: The samples; default seeded random inputs.
        options: Limits, and what else to do with the outputs.
        progress: Told of every sample.
        blame: When layers are named; default where a gate on the outputs is missed, True for always.
        keywords: In place of ``options``: options of ``qdqtool check``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is of no accepted kind, or an option is unknown or given twice.
        UsageError: Data, saved outputs or the engine do not fit the model, the model fails while it runs, or options
            lack what they need.
        ModelError: A model cannot be read, or ONNX Runtime calls it invalid.
        CapabilityError: ONNX Runtime is not installed or cannot run the model; or an engine was given, and a GPU, its
            driver or a package is absent.
        GateError: The engine does not run.
        OutputError: The outputs cannot be saved.
    """
    given = checked(keywords, CheckKeywords, "check_model")
    request = take_request(data, given)
    return check_job.check_model(
        as_source(model),
        baseline=None if baseline is None else as_source(baseline, "baseline"),
        data=request,
        options=settled(options, given, check_options),
        progress=progress,
        blame=BlameRequest(always=blame) if isinstance(blame, bool) else blame,
    )


def validate_model(
    path_or_model: ModelLike,
    targets: Sequence[str] = ("tensorrt",),
    *,
    compute_capabilities: Sequence[str] = (),
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    parser: bool | None = False,
) -> ValidateReport:
    """Find every fault of one model for each target.

    A file is read as it is, and weights are left on disk: scales and zero points are read, and a sample of weights.

    Args:
        path_or_model: The model.
        targets: Target ids: ``onnx``, ``ort-cpu``, ``tensorrt``, ``tensorrt-rtx``, or a release as ``tensorrt-10.8``.
        compute_capabilities: GPUs that the engine is for, as ``8.6`` or ``86``: types that they lack are reported.
        select: Prefixes of the rule codes to apply (``QS``, ``QP101``, ``ALL``); None for all.
        ignore: Prefixes of rule codes to leave out.
        parser: For ``tensorrt-rtx``, whether the parser of TensorRT for RTX is asked too; None for where it is
            installed and the model has at most 1 GB of weights, as on the command line.

    Raises:
        ArgumentError: The model is of no accepted kind, a target, a compute capability or a prefix is unknown, or the
            parser is asked about a model in memory.
        ModelError: The model cannot be read.
        CapabilityError: ``parser`` is True and it is not installed.
    """
    return validate_job.validate_model(
        as_source(path_or_model),
        targets,
        compute_capabilities=compute_capabilities,
        select=select,
        ignore=ignore,
        parser=parser,
    )


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


def inspect_model(model: ModelLike, *, tensors: bool = False) -> InspectReport:
    """Return what is quantized in a model and what is not.

    Args:
        model: The model. Weights are not read; external data of a file may be missing.
        tensors: Also list every tensor.

    Raises:
        ArgumentError: The model is of no accepted kind.
        ModelError: The model cannot be read.
    """
    return inspect_job.inspect_model(as_source(model), tensors=tensors)


def diff_models(before: ModelLike, after: ModelLike) -> DiffReport:
    """Return what changed in Q/DQ from one model to another.

    Nodes are matched by name and structure, so renamed tensors and nodes make no difference. Weights are read where
    their scales are equal, one at a time.

    Args:
        before: A model.
        after: The other.

    Raises:
        ArgumentError: A model is of no accepted kind.
        ModelError: One of them cannot be read.
    """
    return diff_job.diff_models(as_source(before, "before"), as_source(after, "after"))
