"""The check job: a model's numbers against our own core, the ONNX Runtime CPU reference and, if given, a baseline."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from qdqtool.backends.ort_cpu import Profile, reference
from qdqtool.errors import UsageError
from qdqtool.graph.load import load_model
from qdqtool.graph.model import Model
from qdqtool.graph.soundness import require_sound
from qdqtool.graph.view import GraphView
from qdqtool.pipeline._check_job import CheckJob, Progress
from qdqtool.pipeline._check_verdict import verdict
from qdqtool.pipeline._observe import Facts
from qdqtool.pipeline.check_report import CheckReport, Gates
from qdqtool.pipeline.data import Feeds, InputSpec, input_specs, load_feeds, random_feeds, with_shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRequest:
    """What a model is to be fed with.

    Attributes:
        path: A data file; None for random inputs.
        seed: Of random inputs.
        samples: Only so many samples; None for all of a file, or the default number of random ones.
        input_shapes: Extents that the user fixes, by input name.
    """

    path: Path | None = None
    seed: int = 0
    samples: int | None = None
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def check_model(
    model: str | Path | Model,
    *,
    baseline: str | Path | Model | None = None,
    data: DataRequest | str | Path | None = None,
    gates: Gates | None = None,
    profile: Profile = Profile.SEMANTIC,
    progress: Progress | None = None,
) -> CheckReport:
    """Check the numbers of a model.

    Every Q and DQ is evaluated by our own core on the values it really had in the reference session and must agree in
    every bit; no output may have NaN or infinities; every DQ must undo the Q before it. With a baseline, outputs and
    quantized tensors are compared with it on the same feeds.

    Args:
        model: The ``.onnx`` file, or a loaded model.
        baseline: The float model.
        data: A data file, or what to feed in full; default seeded random inputs.
        gates: Limits beyond those that are always kept.
        profile: Which session computes the outputs that are compared with the baseline. Q and DQ nodes, and the
            baseline, are always run in the semantic one.
        progress: Told of every sample.

    Raises:
        UsageError: The data does not fit the model, or gates need a baseline that was not given.
        ModelError: A model cannot be read, or ONNX Runtime calls it invalid.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
        GateError: The model fails while it runs.
    """
    gates = gates or Gates()
    if baseline is None and any(limit is not None for limit in (gates.min_sqnr, gates.min_cosine, gates.max_steps)):
        raise UsageError("--min-sqnr, --min-cosine and --max-steps compare with a baseline", hint="give --baseline")
    request = data if isinstance(data, DataRequest) else DataRequest(path=Path(data) if data is not None else None)
    facts = _facts(model)
    compared = _facts(baseline) if baseline is not None else None
    feeds = _feeds(facts, compared, request)
    job = CheckJob(facts, compared, gates, profile)
    job.run(feeds, progress)
    return verdict(job, reference(facts.view.model, profile), feeds.description)


def _facts(model: str | Path | Model) -> Facts:
    view = GraphView(model if isinstance(model, Model) else load_model(model))
    require_sound(view)
    return Facts.of(view)


def _feeds(facts: Facts, baseline: Facts | None, request: DataRequest) -> Feeds:
    specs = with_shapes(input_specs(facts.view.model), request.input_shapes)
    if baseline is not None:
        _check_same_inputs(specs, input_specs(baseline.view.model))
    if request.samples is not None and request.samples < 1:
        raise UsageError(f"--samples is {request.samples}; it must be at least 1")
    if request.path is not None:
        return load_feeds(request.path, specs, request.samples)
    return random_feeds(facts.view, facts.types, specs, seed=request.seed, samples=request.samples)


def _takes_the_same(left: InputSpec, right: InputSpec) -> bool:
    ranks = {len(spec.shape) for spec in (left, right) if spec.shape is not None}
    return left.dtype == right.dtype and len(ranks) <= 1


def _check_same_inputs(specs: tuple[InputSpec, ...], others: tuple[InputSpec, ...]) -> None:
    by_name = {spec.name: spec for spec in others}
    same_names = {spec.name for spec in specs} == set(by_name)
    if not same_names or not all(_takes_the_same(spec, by_name[spec.name]) for spec in specs):
        raise UsageError(
            f"model and baseline take different inputs: {', '.join(map(str, specs))} against "
            f"{', '.join(map(str, others))}",
            hint="the baseline must be the float model that was quantized",
        )
