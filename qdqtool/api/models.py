"""The jobs that read models but no data, for Python code. It loads quickly, as it never imports ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qdqtool.jobs import diff as diff_job
from qdqtool.jobs import inspect as inspect_job
from qdqtool.jobs import validate as validate_job
from qdqtool.jobs.inspect_report import InspectReport
from qdqtool.linting.report import ValidateReport
from qdqtool.models.diff.report import DiffReport
from qdqtool.models.graph.io.load import ModelLike, as_source


def validate_model(  # noqa: PLR0913 -- each argument is a keyword of Python code
    path_or_model: ModelLike,
    targets: Sequence[str] = ("tensorrt",),
    *,
    compute_capabilities: Sequence[str] = (),
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    parser: bool | None = False,
    plugin_ops: Sequence[str] = (),
) -> ValidateReport:
    """Find every fault of one model for each target.

    A file is read without conversion. Weights stay on disk: only scales, zero points and some weights are read.

    Args:
        path_or_model: The model.
        targets: Target ids: ``onnx``, ``ort-cpu``, ``tensorrt``, ``tensorrt-rtx``, or a release as ``tensorrt-10.8``.
        compute_capabilities: GPUs for the engine, such as ``8.6`` or ``86``: types that they lack are reported.
        select: Prefixes of the rule codes to apply (``QS``, ``QP101``, ``ALL``); None for all.
        ignore: Prefixes of rule codes to leave out.
        parser: For ``tensorrt-rtx``: whether to run the parser of TensorRT for RTX too. None runs it if it is installed
            and the model has at most 1 GB of weights, as on the command line.
        plugin_ops: Operators that TensorRT has as plugins: ``DOMAIN::NAME`` or ``DOMAIN::NAME=same-as-input-N``.

    Raises:
        UsageError: A plugin operator is written in another form.
        ArgumentError: The model has a wrong type; a target, compute capability or prefix is unknown; or the parser is
            requested for a model in memory.
        ModelError: The model cannot be read.
        CapabilityError: ``parser`` is True, but the parser is not installed.
    """
    return validate_job.validate_model(
        as_source(path_or_model),
        targets,
        compute_capabilities=compute_capabilities,
        select=select,
        ignore=ignore,
        parser=parser,
        plugin_ops=plugin_ops,
    )


def inspect_model(model: ModelLike, *, tensors: bool = False) -> InspectReport:
    """Return which tensors of a model are quantized and which are not.

    Args:
        model: The model. Weights are not read; external data of a file may be missing.
        tensors: Whether to list every tensor too.

    Raises:
        ArgumentError: The model is not of an accepted kind.
        ModelError: The model cannot be read.
    """
    return inspect_job.inspect_model(as_source(model), tensors=tensors)


def diff_models(before: ModelLike, after: ModelLike) -> DiffReport:
    """Return the changes in Q/DQ from one model to another.

    Nodes are matched by name and structure, so renamed tensors and nodes are no changes. Weights are read if their
    scales are equal, one at a time.

    Args:
        before: The first model.
        after: The second model.

    Raises:
        ArgumentError: A model is not of an accepted kind.
        ModelError: A model cannot be read.
    """
    return diff_job.diff_models(as_source(before, "before"), as_source(after, "after"))
