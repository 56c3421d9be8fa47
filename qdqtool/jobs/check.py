"""The check job: compare a model with qdqtool's arithmetic, the ONNX Runtime CPU reference and an optional baseline."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from qdqtool.accuracy.checking.check_blame import BlameRequest, with_blame
from qdqtool.accuracy.checking.check_values import feeds_of, other_preprocessing, recorded_preprocessing, with_values
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.reference_run import CheckJob
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.accuracy.checking.verdict import verdict
from qdqtool.accuracy.task_metrics.request import labelled_for, load_metric
from qdqtool.engines.gpu.requirements import require_gpu
from qdqtool.errors import UsageError
from qdqtool.jobs.run import EngineRun, engine_outputs
from qdqtool.jobs.verdict import judge, reasons_of, word_of
from qdqtool.models.graph.index.growth import require_bounded
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.soundness import require_sound
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.metadata import with_plugins
from qdqtool.models.graph.io.model_file import describe_file
from qdqtool.models.graph.io.output import check_output
from qdqtool.models.graph.model import Model
from qdqtool.models.plugins import plugin_operators
from qdqtool.models.running.custom_operators import active
from qdqtool.models.running.ort_cpu import reference
from qdqtool.models.transforms.interface import Pairing, with_interface_of
from qdqtool.models.transforms.specialize import specialize_like
from qdqtool.quantization.insertion.split_qkv import separate_like
from qdqtool.quantization.preparation.metadata import prepared_like
from qdqtool.samples.calibration_note import read_note
from qdqtool.samples.feeds import Progress
from qdqtool.samples.in_memory import in_files
from qdqtool.samples.request import DataRequest
from qdqtool.samples.split import measuring_part, split_samples


def check_model(
    model: str | Path | Model,
    *,
    baseline: str | Path | Model | None = None,
    data: DataRequest | str | Path | None = None,
    options: CheckOptions | None = None,
    progress: Progress | None = None,
    blame: BlameRequest | None = None,
) -> CheckReport:
    """Check the numbers of a model.

    Every Q and DQ is computed with qdqtool's arithmetic from the values in the reference session, and must agree in
    every bit. No output may have NaN or infinities, and every DQ must undo the Q before it. With a baseline, outputs
    and quantized tensors are compared with it on the same feeds.

    Args:
        model: The ``.onnx`` file, or a loaded model.
        baseline: The float model.
        data: A data file, or a full data request; default is random inputs with a fixed seed.
        options: The limits, and further uses of the outputs.
        progress: Called after each sample, with the number of finished samples and of all samples.
        blame: When to rank layers by noise; by default only if a gate on the outputs is missed.
    """
    options = options or CheckOptions()
    request = data if isinstance(data, DataRequest) else DataRequest(path=Path(data) if data is not None else None)
    metric = load_metric(options.metric) if options.metric is not None else None
    if blame is not None and blame.always and baseline is None:
        raise UsageError("--blame compares with a baseline", hint="give `--baseline FLOAT.onnx`")
    if options.engine is not None:
        require_gpu()
    options.validate(metric, has_baseline=baseline is not None, has_data=request.path is not None)
    if options.save_outputs is not None:
        check_output(
            options.save_outputs, _paths(model, baseline, *in_files([request.path, options.outputs, options.engine]))
        )
    given = _loaded(model), _loaded(baseline) if baseline is not None else None
    files = [None if each is None else describe_file(each) for each in given]
    fixed, others, request = with_values(*given, request)
    index = _index_of(fixed)
    paired = with_interface_of(others, fixed) if others is not None else None
    compared = _index_of(_like(index.model, paired.model)) if paired is not None else None
    renamed = {} if paired is None else {own: name for name, own in paired.report.inputs.items()}
    recorded = recorded_preprocessing(given)
    request = replace(request, options=replace(request.options, recorded=recorded))
    feeds = feeds_of(index, compared, request, renamed)
    for each in (index, compared):
        if each is not None:
            require_bounded(each.model, feeds.description.shapes)
    if compared is not None and compared.qdq.nodes and not index.qdq.nodes:
        raise _swapped(given)
    if request.held_back:
        feeds = measuring_part(feeds, split_samples(len(feeds))).feeds
    if metric is not None:
        feeds = labelled_for(metric, feeds)
    with engine_outputs(options, feeds, given[0]) as (options, ran):
        job = CheckJob(index, compared, options, metric)
        job.run(feeds, progress)
    used = reference(index.model, options.profile)
    if job.split is not None and job.split.own:
        used = replace(used, path=f"{used.path}+qdqtool")
    report = verdict(job, used, feeds.description)
    pairing = Pairing() if paired is None else paired.report
    told = (*_of_pairing(pairing), *_of_plugins(index, options), *other_preprocessing(recorded, report))
    report = replace(report, warnings=(*told, *report.warnings))
    report = replace(report, model_file=files[0], baseline_file=files[1])
    report = report if ran is None else _with_engine(report, ran)
    note = read_note(index.model)
    blame = replace(blame or BlameRequest(), clipping=job.clipping, calibrator=note.method if note is not None else "")
    report = with_blame(report, index, compared, feeds, blame)
    judgements = judge([("", report)])
    return replace(report, verdict=word_of(judgements), reasons=reasons_of(judgements))


def _swapped(models: tuple[Model, Model | None]) -> UsageError:
    quantized, baseline = ("FLOAT.onnx" if each is None or each.path is None else str(each.path) for each in models)
    return UsageError(
        "the baseline has Q/DQ nodes and the model has none: the two are swapped",
        hint=f"`qdqtool check {shlex.quote(baseline)} --baseline {shlex.quote(quantized)}`",
    )


def _of_pairing(pairing: Pairing) -> Iterator[str]:
    """Yield what was assumed to compare the model with the baseline, as text."""
    for what, pairs in (("input", pairing.inputs), ("output", pairing.outputs)):
        for name, own in pairs.items():
            yield f"{what} '{name}' is called '{own}' in the baseline: they are paired by their position"
    for name, (own, given) in pairing.types.items():
        yield f"input '{name}' is {given}, but {own} in the baseline; both receive the same values"


def _of_plugins(index: ModelIndex, options: CheckOptions) -> Iterator[str]:
    """Yield what the check does not know of operators for which stand-ins run, as text."""
    present = {(node.domain, node.op_type) for node in index.view.nodes()}
    declared = plugin_operators(with_plugins(index.model, options.plugin_ops).proto)
    for each in declared.values():
        if each.id in present:
            yield f"{each.title} is a plugin in TensorRT: a stand-in ran here, so its numbers say nothing of the plugin"
        else:
            yield f"{each.title} is declared as a plugin, but no node has this operator"
    for domain, name in sorted((active().stand_ins.keys() & present) - declared.keys()):
        yield f"{domain}::{name}: a stand-in ran here, so its numbers say nothing of the operator itself"


def _with_engine(report: CheckReport, ran: EngineRun) -> CheckReport:
    """Return the report with the engine in place of the temporary file of its outputs."""
    assert report.saved_outputs is not None
    saved = replace(report.saved_outputs, file=ran.loaded.file, computed_by=str(ran.loaded))
    return replace(report, saved_outputs=saved, warnings=(*ran.warnings, *report.warnings))


def _loaded(model: str | Path | Model) -> Model:
    return model if isinstance(model, Model) else load_model(model)


def _index_of(model: Model) -> ModelIndex:
    index = ModelIndex.of(model)
    require_sound(index.view)
    return index


def _like(model: Model, baseline: Model) -> Model:
    """Return the baseline after the changes that were made to the model: specialized, weights prepared and split."""
    require_sound(GraphView(baseline))
    baseline = specialize_like(model, baseline).model
    return separate_like(model, prepared_like(model, baseline).model).model


def _paths(*sources: str | Path | Model | None) -> list[Path]:
    paths = [source.path if isinstance(source, Model) else source for source in sources]
    return [Path(path) for path in paths if path is not None]
