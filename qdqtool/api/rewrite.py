"""The jobs that rewrite models, for Python code: cast, fix, normalize, strip and reduce."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Unpack

from qdqtool.api.any_data import DataLike, as_place
from qdqtool.api.checked import checked, values_of, with_keywords
from qdqtool.api.keywords import CastKeywords, OperatorKeywords, StripKeywords
from qdqtool.api.outputs import write_or_keep
from qdqtool.jobs import cast as cast_job
from qdqtool.jobs import fix as fix_job
from qdqtool.jobs import normalize as normalize_job
from qdqtool.jobs import reduce as reduce_job
from qdqtool.jobs import strip as strip_job
from qdqtool.jobs.cast import CastReport, cast_request
from qdqtool.jobs.reduction.options import ReduceOptions
from qdqtool.jobs.reduction.report import ReduceReport
from qdqtool.jobs.strip import StripReport
from qdqtool.linting.policy import Policy
from qdqtool.linting.repair.report import FixReport, NormalizeReport
from qdqtool.models.graph.io.load import ModelLike, as_source
from qdqtool.models.graph.model import Model
from qdqtool.models.options import ExternalData
from qdqtool.options import PYTHON
from qdqtool.samples.feeds import Progress
from qdqtool.samples.options import named_shapes
from qdqtool.samples.request import DataRequest


@with_keywords
def cast_model(
    model: ModelLike, data: DataLike | None = None, output: str | Path | None = None, **keywords: Unpack[CastKeywords]
) -> CastReport:
    """Convert the float32 nodes of a model to half precision.

    Inputs and outputs keep their types, Q/DQ pairs keep their scales and codes. A node stays float32 if ONNX does not
    define its operator for the type, if a value on the data or inside its formula leaves the type, if a keyword names
    it, or if an output would otherwise have a lower SQNR than ``min_sqnr``.

    Args:
        model: The model. It is not changed.
        data: The samples on which values are measured; default is random inputs with a fixed seed.
        output: The ``.onnx`` file to write; None to get the model as ``output_model`` of the report.
        keywords: Options of ``qdqtool cast``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An argument is not of an accepted kind, or an option is unknown.
        ModelError: The model cannot be read, or the reference loads the model but not the result.
        UsageError: Data or patterns do not fit the model, no node can be converted, or the result is larger than 2 GiB
            and has no output.
        GateError: No node can be converted within the limit. Nothing was written.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
        OutputError: The output cannot be written.
    """
    source = as_source(model)
    request, options = cast_request(values_of(keywords, "cast", "cast_model", data=data), PYTHON)
    return write_or_keep(output, options, lambda path, final: cast_job.cast_model(source, path, final, request))


@with_keywords
def fix_models(  # noqa: PLR0913 -- one argument for each option
    models: Sequence[str | Path],
    targets: Sequence[str] = ("tensorrt",),
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    unsafe: bool = False,
    diff: bool = False,
    in_place: bool = False,
    output: str | Path | None = None,
    data: DataLike | None = None,
    **keywords: Unpack[OperatorKeywords],
) -> FixReport:
    """Apply every fix that provably changes no bit of the outputs and, on request, other fixes.

    Fixes are applied in rounds until no rule has a further one. A model that cannot be read is reported and does not
    stop the others.

    Args:
        models: The files.
        targets: Target ids, as for :func:`~qdqtool.validate_model`.
        select: Prefixes of the rule codes to apply; None for all.
        ignore: Prefixes of rule codes to leave out.
        unsafe: Whether to also apply fixes that change numbers or cannot be proven.
        diff: Whether to describe the changes instead of writing them.
        in_place: Whether each model is written over its own file.
        output: The output file, if there is a single model.
        data: Samples for runs and for the shapes of dynamic inputs; None for a few random samples.
        keywords: Options for custom operators.

    Raises:
        UsageError: No destination or several are given, a target or prefix is unknown, or the data does not fit.
        OutputError: A file cannot be written.
    """
    checked(keywords, OperatorKeywords, "fix_models")
    policy = Policy(targets=tuple(targets), select=None if select is None else tuple(select), ignore=tuple(ignore))
    request = fix_job.FixRequest(
        policy=policy,
        unsafe=unsafe,
        diff=diff,
        in_place=in_place,
        output=Path(output) if output is not None else None,
        data=_request(data, None),
    )
    return fix_job.fix_models([Path(model) for model in models], request)


@with_keywords
def normalize_model(
    model: str | Path | Model,
    output: str | Path,
    *,
    data: DataLike | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    external_data: Literal["auto", "always", "never"] = "auto",
    **keywords: Unpack[OperatorKeywords],
) -> NormalizeReport:
    """Rewrite foreign forms of quantization as Q/DQ and write the result.

    Args:
        model: The model. It is not changed.
        output: The ``.onnx`` file to write.
        data: Samples on which outputs are compared; None for a few random ones.
        input_shapes: Shapes of inputs for the comparison, by name.
        external_data: Whether weights are stored in a second file.
        keywords: Options for custom operators.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The data does not fit the model.
        OutputError: The output cannot be written.
    """
    checked(keywords, OperatorKeywords, "normalize_model")
    request = _request(data, input_shapes)
    return normalize_job.normalize_model(model, output, data=request, external_data=ExternalData(external_data))


@with_keywords
def strip_model(model: str | Path | Model, output: str | Path, **keywords: Unpack[StripKeywords]) -> StripReport:
    """Remove every Q/DQ from a model and write the result.

    Args:
        model: The model. It is not changed.
        output: The ``.onnx`` file to write.
        keywords: Options of ``qdqtool strip``, with ``_`` for ``-``.

    Raises:
        ArgumentError: An option is unknown, or has a value of the wrong type.
        ModelError: The model cannot be read.
        UsageError: A Q may replace a Relu or Clip that cannot be restored.
        OutputError: The output cannot be written.
    """
    return strip_job.strip_model(model, output, **values_of(keywords, "strip", "strip_model"))


def reduce_model(  # noqa: PLR0913 -- one argument for each option
    model: str | Path,
    output: str | Path,
    fails: str = "build",
    *,
    options: Sequence[str] = (),
    match: str | None = None,
    timeout: float = 1800,
    max_runs: int = 1000,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    report: str | Path | None = None,
    progress: Progress | None = None,
) -> ReduceReport:
    """Find a small model on which a command fails as on the given model, and write it with a bug report.

    Args:
        model: The model.
        output: The ``.onnx`` file to write.
        fails: ``build``, ``check`` or a command, in which ``{}`` is the path of the model.
        options: Options for ``build`` or ``check``, or further words of a command.
        match: Regular expression: a run that prints a match fails, whatever its exit code.
        timeout: Time limit of a run in seconds.
        max_runs: Largest number of runs; after them, the smallest model so far is the result.
        input_shapes: Shapes of inputs, by name, that are first written into the model.
        report: The Markdown file for a bug report; None for the path of the output with the suffix ``.md``.
        progress: Called with the number of finished runs and the number of remaining nodes.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The command does not fail on the model, or fails on any model.
        OutputError: A file cannot be written.
    """
    how = ReduceOptions(
        options=tuple(options),
        match=match,
        timeout=timeout,
        max_runs=max_runs,
        input_shapes=named_shapes(input_shapes or {}),
        report=Path(report) if report is not None else None,
    )
    return reduce_job.reduce_model(model, output, fails, how, progress)


def _request(data: DataLike | None, input_shapes: Mapping[str, Sequence[int]] | None) -> DataRequest:
    place = None if data is None else as_place(data)
    return DataRequest(path=place, input_shapes=named_shapes(input_shapes or {}))
