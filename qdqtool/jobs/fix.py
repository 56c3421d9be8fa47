"""The fix job: repair findings of the linter and prove each fix, until no fix is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qdqtool.errors import ModelError, UsageError
from qdqtool.linting.findings import SEVERITIES, Severity
from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.repair.fix_loop import Permission, Proposal, Repair
from qdqtool.linting.repair.proof import Prover
from qdqtool.linting.repair.report import FixedModel, FixReport, Repaired
from qdqtool.linting.repair.text_diff import unified_diff
from qdqtool.linting.report import ModelReport, validate_report
from qdqtool.linting.rules import RuleContext
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.output import check_output, write_output
from qdqtool.models.graph.io.save import SavedFiles, inlined, save_model
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.running.loadable import require_loadable
from qdqtool.models.running.ort_cpu import reference
from qdqtool.samples.request import DataRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRequest:
    """How models are fixed.

    Attributes:
        policy: Targets and rules. Suppressed findings are not fixed.
        unsafe: Whether to also apply fixes that change numbers or cannot be proven.
        diff: Whether to describe the changes instead of writing them.
        in_place: Whether each model is written over its own file.
        output: The output file, if there is a single model.
        data: The samples on which the models are run.
    """

    policy: Policy = field(default_factory=Policy)
    unsafe: bool = False
    diff: bool = False
    in_place: bool = False
    output: Path | None = None
    data: DataRequest = field(default_factory=DataRequest)


def fix_models(paths: Sequence[Path], request: FixRequest) -> FixReport:
    """Apply every fix that provably changes no bit of the outputs and, on request, other fixes.

    Fixes are applied in rounds until no rule has a further one. A model that cannot be read is reported and does not
    stop the others.

    Args:
        paths: The models. The files are not changed unless ``request.in_place`` is set.
        request: The fixes to apply, and where to write.
    """
    _check(paths, request)
    models = tuple(_fix_file(path, request) for path in paths)
    left = validate_report(ModelReport(model.path, model.targets, model.error) for model in models)
    return FixReport(models=models, summary=left.summary)


def fix_model(model: Model, request: FixRequest) -> Transformed[Repaired]:
    """Fix a model in memory; the given model is not changed, and nothing is written."""
    reference(model)
    linter = Linter(request.policy)

    def proposals(context: RuleContext) -> Iterator[Proposal]:
        for finding, fault in linter.fixable(context):
            yield Proposal(code=finding.code, node=fault.node, fixes=fault.fixes)

    permission = Permission.UNSAFE if request.unsafe else Permission.SAFE
    repair = Repair(model, proposals, Prover(model, request.data), permission)
    repaired = repair.run()
    if repaired.unproven is not None:
        require_loadable(repair.model, model)
    return Transformed(repair.model, repaired)


def reaches(report: FixReport, severity: Severity) -> bool:
    """Return whether a finding of at least ``severity`` remains."""
    counts = (report.summary.errors, report.summary.warnings, report.summary.infos)
    return any(counts[: SEVERITIES.index(severity) + 1])


def _check(paths: Sequence[Path], request: FixRequest) -> None:
    ways = [request.diff, request.in_place, request.output is not None]
    if sum(ways) != 1:
        raise UsageError(
            "exactly one output must be chosen for the fixed model",
            hint="give one of `-o OUT.onnx`, `--in-place`, or `--diff`, which writes nothing",
        )
    if request.output is not None and len(paths) > 1:
        raise UsageError(f"-o names one file for {len(paths)} models", hint="fix one at a time, or use `--in-place`")


def _fix_file(path: Path, request: FixRequest) -> FixedModel:
    try:
        model = load_model(path)
        if request.output is not None:
            check_output(request.output, [path])
        fixed = fix_model(model, request)
    except ModelError as error:
        return FixedModel(path=str(path), error=f"{error.message}; {error.hint}" if error.hint else error.message)
    left = Linter(request.policy).model(fixed.model)
    saved = _write(fixed.model, path, request, changed=bool(fixed.report.changes))
    return FixedModel(
        path=str(path),
        targets=left.targets,
        output=str(saved.model) if saved else None,
        external_data=str(saved.data) if saved and saved.data else None,
        repaired=fixed.report,
        diff=unified_diff(model, fixed.model, str(path)) if request.diff else None,
    )


def _write(model: Model, path: Path, request: FixRequest, *, changed: bool) -> SavedFiles | None:
    if request.output is not None:
        return save_model(model, request.output)
    return _replace(model, path) if request.in_place and changed else None


def _replace(model: Model, path: Path) -> SavedFiles:
    """Write a model over the file that it was read from, completely or not at all."""
    if model.stored_outside:
        raise UsageError(
            f"{path} has external data, which must not change while the new file is written",
            hint="write it elsewhere: `-o OUT.onnx`",
        )
    proto = inlined(model)
    if proto is None:
        raise UsageError(
            f"{path} is one file, but the fixed model does not fit into one", hint="write it elsewhere: `-o OUT.onnx`"
        )
    data = proto.SerializeToString(deterministic=True)
    write_output(path, data)
    return SavedFiles(path, None, len(data))
