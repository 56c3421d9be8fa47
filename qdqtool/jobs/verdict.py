"""The verdict on a model: one decision that terminal, JSON, page and exit code all show."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.accuracy.checking.worst_output import LOW_SQNR, judge_check
from qdqtool.engines.build.report import EngineReport, RefusedReport
from qdqtool.engines.report import NO_PLUGIN
from qdqtool.errors import QdqError, human_bytes, plural
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.linting.report import ModelReport, TargetReport, ValidateReport
from qdqtool.models.report import float32_rest
from qdqtool.quantization.planning import modes
from qdqtool.results import Judgement, VerdictWord

LEAST_QUANTIZED = 0.1
"""Smallest share of quantized multiply-accumulates without a warning."""
LEAST_AS_PLANNED = 0.5
LARGE = 0.95
"""A quantized model that is larger than this share of the float model gets a warning."""


def judge(reports: Sequence[tuple[str, object]], limit: str = "--min-sqnr") -> tuple[Judgement, ...]:
    """Return the judgements on one model from its reports.

    Args:
        reports: The reports of ``quantize``, ``validate``, ``check`` and ``build``, or the error of a check, each with
            its file; reports of other commands are ignored.
        limit: The option of ``check`` that sets a limit on the SQNR of an output, for hints.
    """
    content = [report for _, report in reports]
    has_target = any(isinstance(each, QuantizeReport) and each.has_accuracy_target for each in content)
    found = [
        replace(judgement, source=source)
        for source, report in reports
        for judgement in _of_report(report, None if has_target else limit)
    ]
    found += [*_other_target(content), *_float32_rest(content)]
    for each in content if not any(isinstance(each, CheckReport) for each in content) else ():
        found += _low_of_quantize(each) if isinstance(each, QuantizeReport) else ()
    return (*found, *_unasked(content))


def word_of(judgements: Iterable[Judgement]) -> VerdictWord:
    """Return the verdict, which is the worst state of the judgements."""
    states = {each.state for each in judgements}
    return "failed" if "failed" in states else "warning" if "warning" in states else "passed"


def reasons_of(judgements: Sequence[Judgement]) -> tuple[Judgement, ...]:
    """Return the judgements that explain why the verdict is not ``passed``, failures first."""
    return tuple(each for state in ("failed", "warning") for each in judgements if each.state == state)


def _of_report(report: object, limit: str | None) -> Iterator[Judgement]:
    match report:
        case QuantizeReport():
            yield from _of_quantize(report)
        case ModelReport():
            yield from _of_validated(report, None)
        case ValidateReport(models=models, settings=settings):
            for model in models:
                yield from _of_validated(model, settings)
        case CheckReport():
            yield from judge_check(report, limit)
        case EngineReport():
            yield from _of_build(report)
        case RefusedReport(stage=stage, message=message):
            yield Judgement("engine", "failed", f"refused in stage '{stage}': {message}")
        case QdqError(message=message, hint=hint):
            yield Judgement("numbers", "failed", f"the check cannot be made: {message}", hint or "")


def _of_validated(model: ModelReport, settings: str | None) -> Iterator[Judgement]:
    if model.error is not None:
        yield Judgement("rules", "failed", f"the model could not be read: {model.error}")
    elif not model.targets:
        yield Judgement("rules", "warning", "no target was validated for", "`--target tensorrt`")
    for target in model.targets:
        errors = sum(finding.severity == "error" for finding in target.findings)
        failed = errors > 0 or target.verdict == "fail"
        detail = f"{target.target}: {plural(errors, 'error')} of {plural(len(target.checked), 'rule')}"
        if target.known or target.suppressed:
            detail += f"; {target.known} known, {target.suppressed} suppressed"
        yield Judgement("rules", "failed" if failed else "passed", detail)
        if target.not_selected:
            applied = f"{len(target.checked)} of {plural(len(target.checked) + target.not_selected, 'rule')}"
            yield Judgement("rules", "warning", f"{target.target}: only {applied} were selected")
        hidden = target.lowered + sum(each.errors for each in target.ignored)
        if hidden:
            by = f"options or {settings or 'settings'}"
            detail = f"{target.target}: {plural(hidden, 'error')} ignored or lowered by {by}"
            yield Judgement("rules", "warning", detail)


def _of_quantize(report: QuantizeReport) -> Iterator[Judgement]:
    errors = [finding.message for finding in report.findings if finding.severity == "error"]
    if errors:
        yield Judgement("rules", "failed", "; ".join(errors))
    outputs = report.accuracy.outputs if report.accuracy is not None else ()
    broken = [output.name for output in outputs if not output.finite]
    if broken:
        yield Judgement("numbers", "failed", f"NaN or infinities in {', '.join(broken)}")
    if report.not_computed:
        lost = ", ".join(map(repr, report.not_computed))
        detail = f"nodes behind unknown operators stay float, and the accuracy of output {lost} is unknown"
        yield Judgement("numbers", "warning", detail, "`--ort-custom-ops LIB` or `--stand-in FILE.onnx` runs them")
    share = report.quantized_share
    if share is not None and share < LEAST_QUANTIZED:
        other_mode = "" if report.mode == modes.DEFAULT else f"`--quantize-mode {modes.DEFAULT}` has more kernels; "
        more = "a lower accuracy target quantizes more; " if report.has_accuracy_target else other_mode
        detail = f"{share:.0%} of the multiply-accumulates are quantized: the engine gains little"
        more += "the report lists the reason of each node that stays float"
        yield Judgement("engine", "warning", detail, more)
    is_float = report.weights == "packed" and report.existing != "keep"
    if is_float and report.sizes.after > LARGE * report.sizes.before:
        sizes = f"{human_bytes(report.sizes.before)} -> {human_bytes(report.sizes.after)}"
        yield Judgement("engine", "warning", f"the quantized model is hardly smaller than the float model: {sizes}")
    if report.existing == "replace":
        detail = "the float model is MODEL without its Q/DQ nodes: its weights were rounded before"
        more = "quantize the float model if there is one; `qdqtool check --baseline FLOAT.onnx` compares with it, and "
        more += "its gate on weights fails where the earlier rounding shows"
        yield Judgement("numbers", "warning", detail, more)


def _low_of_quantize(report: QuantizeReport) -> Iterator[Judgement]:
    """Yield a warning for random data, for no measurement, or for a low SQNR if no accuracy was requested."""
    is_random = report.calibration is not None and report.calibration.random
    problem = "there is no data" if report.accuracy is None else report.accuracy.problem
    if report.quantized and (is_random or problem):
        detail = "the scales are those of random data" if is_random else f"the accuracy was not measured: {problem}"
        yield Judgement("numbers", "warning", detail, "`--calib-data DATA`")
    outputs = report.accuracy.outputs if report.accuracy is not None and not is_random else ()
    known = [(each.sqnr_db, each.name) for each in outputs if each.sqnr_db is not None]
    worst, name = min(known, default=(LOW_SQNR, ""))
    if worst < LOW_SQNR and not report.has_accuracy_target:
        detail = f"output '{name}' keeps {worst:.1f} dB, and no accuracy was asked for"
        more = f"`--min-sqnr {LOW_SQNR:.0f}` leaves layers in float to reach that"
        yield Judgement("numbers", "warning", detail, more)


def _of_build(build: EngineReport) -> Iterator[Judgement]:
    missed = [f"{gate.gate}: {gate.found}" for gate in build.gates if not gate.passed]
    if missed or not build.passed:
        yield Judgement("engine", "failed", "; ".join(missed) or "a gate was missed")
        return
    if build.lost_nodes:
        detail = f"the model has lost the Q/DQ of {plural(build.lost_nodes, 'node')} since quantize wrote it"
        yield Judgement("engine", "warning", detail)
    for warning in (each for each in build.warnings if each.startswith(NO_PLUGIN)):
        yield Judgement("engine", "warning", warning, "`--plugins LIB`")
    built = f"{build.backend} {build.version} built it"
    if build.evidence == "none":
        yield Judgement("engine", "warning", f"{built}; it does not show the actual precision")
        return
    planned = sum(build.planned.values())
    achieved = sum(min(build.achieved.get(kind, 0), count) for kind, count in build.planned.items())
    detail = f"{built}; {achieved} of {planned} planned nodes have the planned precision"
    if achieved < LEAST_AS_PLANNED * planned or not planned:
        hint = f"`qdqtool inspect {build.engine}` lists the kernels" if build.engine else ""
        yield Judgement("engine", "warning", f"{detail}: the others compute in float", hint)
    else:
        yield Judgement("engine", "passed", detail)


def _unasked(reports: Sequence[object]) -> Iterator[Judgement]:
    """Yield a warning if neither the parser nor a builder of TensorRT has processed a model for it."""
    if any(isinstance(each, EngineReport | RefusedReport) for each in reports):
        return
    for target in _targets(reports):
        if target.parser not in {None, "asked", "stopped"}:
            detail = f"{target.target}: neither the parser nor the builder was asked ({target.parser_note})"
            yield Judgement("engine", "warning", detail, "`pip install tensorrt-rtx` installs the parser")


def _other_target(reports: Sequence[object]) -> Iterator[Judgement]:
    """Yield a warning if no rules for TensorRT were applied to a model that TensorRT builds."""
    names = list(dict.fromkeys(each.target for each in _targets(reports)))
    for build in reports:
        if isinstance(build, EngineReport) and names and not any(name.startswith("tensorrt") for name in names):
            detail = f"validated for {', '.join(names)}, and built by {build.backend}"
            yield Judgement("rules", "warning", detail, f"`--target {build.backend}` of validate")


def _float32_rest(reports: Sequence[object]) -> Iterator[Judgement]:
    """Yield a warning for work in float32 if the target, or the builder of an engine, has half precision."""
    quantized = next((each for each in reports if isinstance(each, QuantizeReport)), None)
    built = next((each for each in reports if isinstance(each, EngineReport)), None)
    half = quantized.high_precision if quantized is not None else None
    work = next((each.work for each in (built, quantized) if each is not None and each.work is not None), None)
    if built is not None or (quantized is not None and quantized.target.startswith("tensorrt")):
        model = built.model if built is not None and quantized is None else ""
        yield from float32_rest(work, model, {each.node: each.reason for each in half.kept} if half is not None else {})


def _targets(reports: Sequence[object]) -> Iterator[TargetReport]:
    for each in reports:
        models = each.models if isinstance(each, ValidateReport) else (each,)
        yield from (target for model in models if isinstance(model, ModelReport) for target in model.targets)
