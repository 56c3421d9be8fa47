"""The jobs that rewrite models, for Python code: fixes, foreign forms, stripping, and the smallest model that fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from qdqtool.api.any_data import DataLike, as_place
from qdqtool.jobs import fix as fix_job
from qdqtool.jobs import normalize as normalize_job
from qdqtool.jobs import reduce as reduce_job
from qdqtool.jobs import strip as strip_job
from qdqtool.jobs.reduction.options import ReduceOptions
from qdqtool.jobs.reduction.report import ReduceReport
from qdqtool.jobs.strip import StripReport
from qdqtool.linting.policy import Policy
from qdqtool.linting.repair.report import FixReport, NormalizeReport
from qdqtool.models.graph.model import Model
from qdqtool.models.options import ExternalData
from qdqtool.samples.feeds import Progress
from qdqtool.samples.options import named_shapes
from qdqtool.samples.request import DataRequest


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
) -> FixReport:
    """Fix models: apply every fix that is proven not to change a bit of the outputs, and others where asked.

    Fixes are applied in rounds until no rule knows a further one. A model that cannot be read is reported and does not
    stop the others.

    Args:
        models: The files.
        targets: Target ids, as :func:`~qdqtool.validate_model` has them.
        select: Prefixes of the rule codes to apply; None for all.
        ignore: Prefixes of rule codes to leave out.
        unsafe: Whether fixes that change numbers, or that cannot be proven, are applied too.
        diff: Whether to describe the changes and write nothing.
        in_place: Whether each model replaces its own file.
        output: The file to write, of a single model.
        data: The samples that models are run on, which have the shapes of dynamic inputs; None for a few random ones.

    Raises:
        UsageError: It is not said where to write, a target or prefix is unknown, or the data does not fit.
        OutputError: A file cannot be written.
    """
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


def normalize_model(
    model: str | Path | Model,
    output: str | Path,
    *,
    data: DataLike | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    external_data: Literal["auto", "always", "never"] = "auto",
) -> NormalizeReport:
    """Rewrite foreign forms of quantization as Q/DQ and write the result.

    Args:
        model: The model. It is not changed.
        output: The ``.onnx`` file to write.
        data: Samples to compare the outputs on; None for a few random ones.
        input_shapes: Shapes of inputs for the comparison, by name.
        external_data: Where weights are stored.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The data does not fit the model.
        OutputError: The output cannot be written.
    """
    request = _request(data, input_shapes)
    return normalize_job.normalize_model(model, output, data=request, external_data=ExternalData(external_data))


def strip_model(
    model: str | Path | Model,
    output: str | Path,
    *,
    external_data: Literal["auto", "always", "never"] = "auto",
    drop_clipping: bool = False,
) -> StripReport:
    """Take every Q/DQ out of a model and write the result.

    Args:
        model: The model. It is not changed.
        output: The ``.onnx`` file to write.
        external_data: Where weights are stored.
        drop_clipping: Write the model also where a Q may do the work of a Relu or Clip that cannot be put back.

    Raises:
        ModelError: The model cannot be read.
        UsageError: A Q may do the work of a Relu or Clip.
        OutputError: The output cannot be written.
    """
    storage = ExternalData(external_data)
    return strip_job.strip_model(model, output, external_data=storage, drop_clipping=drop_clipping)


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
    """Find a small model on which a command fails as it does on a given one, and write it with a bug report.

    Args:
        model: The model.
        output: The ``.onnx`` file to write.
        fails: ``build``, ``check`` or a command, in which ``{}`` stands for the path of the model.
        options: Options for ``build`` or ``check``, or further words of a command.
        match: Regular expression: a run fails where it prints that, however it ends.
        timeout: Seconds after which a run is stopped.
        max_runs: Number of runs after which the smallest model so far is the result.
        input_shapes: Shapes of inputs, by name, that are written into the model first.
        report: The Markdown file for a bug report; None for the name of the output with ``.md``.
        progress: Called with the runs so far and the number of nodes that are left.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The command does not fail on the model, or not twice alike.
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
