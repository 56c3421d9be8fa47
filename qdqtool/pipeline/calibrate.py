"""The calibrate job: run a float model over data, and keep the range of every tensor that is to be quantized."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from qdqtool import calibrators, targets
from qdqtool.errors import UsageError
from qdqtool.graph.digest import model_digest
from qdqtool.graph.load import load_model
from qdqtool.graph.model import Model
from qdqtool.graph.save import check_output, write_atomically
from qdqtool.graph.scope import display
from qdqtool.graph.specialize import specialize
from qdqtool.graph.spill import spilled
from qdqtool.graph.view import Value
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.pipeline import modes
from qdqtool.pipeline._channels import product_inputs
from qdqtool.pipeline._check_job import Progress
from qdqtool.pipeline._float_runs import FloatRuns
from qdqtool.pipeline._folding import Extent, Samples, fold_samples
from qdqtool.pipeline._observe import Facts
from qdqtool.pipeline._prepare import Prepared, prepare
from qdqtool.pipeline._statistics import RangeFold
from qdqtool.pipeline.calibrate_report import CalibrateReport, UnseenTensor
from qdqtool.pipeline.calibration_data import CalibrationData, open_feeds
from qdqtool.pipeline.data import (
    Feeds,
    data_digest,
    sample_digest,
)
from qdqtool.pipeline.placement import (
    Proposal,
    ProposedSlot,
    Selection,
    SkippedNode,
    WeightGoal,
    propose,
    propose_weights,
)
from qdqtool.pipeline.placement.propose import ASK
from qdqtool.pipeline.preparation import Preparation
from qdqtool.pipeline.scale_type import HighPrecision
from qdqtool.pipeline.shard import Shard
from qdqtool.ranges import CalibrationRecord, Ranges
from qdqtool.ranges_file import encode_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is to be quantized, and how ranges become scales.

    Attributes:
        mode: Id of a mode (:mod:`qdqtool.pipeline.modes`).
        block_size: Elements that share a scale, in modes with blocks; None for the mode's default.
        method: Id of a calibrator (:mod:`qdqtool.calibrators`).
        percentile: For the method ``percentile``: how many of a hundred values are not clipped; None for the default.
        target: Id of a target (:mod:`qdqtool.targets`).
        selection: Which nodes.
        input_shapes: Extents that the user fixes, by input name.
        preparation: How the float model is made ready.
        high_precision: The type of what stays float in the model that is written.
    """

    mode: str = modes.DEFAULT
    block_size: int | None = None
    method: str = calibrators.DEFAULT
    percentile: float | None = None
    target: str = targets.DEFAULT
    selection: Selection = field(default_factory=Selection)
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    preparation: Preparation = field(default_factory=Preparation)
    high_precision: HighPrecision = HighPrecision.FP32

    def __post_init__(self) -> None:
        self.unit.block_size(self.block_size)
        calibrators.get(self.method)
        calibrators.check_percentile(self.method, self.percentile)
        modes.require_target(self.mode, self.target)

    def goal(self, fmt: NumberFormat) -> calibrators.Goal:
        """What thresholds of activations are for."""
        return calibrators.Goal(format=fmt, percentile=self.percentile or calibrators.PERCENTILE)

    def parameters(self) -> dict[str, float]:
        """Those of the method, as a ranges file keeps them."""
        return {"percentile": self.percentile or calibrators.PERCENTILE} if self.method == "percentile" else {}

    @property
    def unit(self) -> modes.Mode:
        """What the mode stands for."""
        return modes.get(self.mode)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A float model with the ranges of its tensors.

    Attributes:
        prepared: The model that was run, ready to be quantized.
        ranges: The ranges of the tensors that placement proposes.
        feeds: What was run; None where the ranges come from a file.
        resumed: How many samples an interrupted run had done before.
    """

    prepared: Prepared
    ranges: Ranges
    feeds: Feeds | None = None
    resumed: int = 0


def calibrate(
    model: str | Path | Model,
    data: str | Path | CalibrationData,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
    shard: Shard | None = None,
) -> Ranges:
    """Run a float model over data and return the range of every tensor that ``quantize_model`` would quantize.

    Args:
        model: The ``.onnx`` file, or a loaded model.
        data: Where the samples are, or that they are random.
        recipe: What is to be quantized; default int8 for TensorRT.
        progress: Told of every sample.
        shard: Run these samples only; :func:`qdqtool.ranges_merge.merge_ranges` joins shards.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The data does not fit the model, the model fails on a sample, or a tensor is not finite.
        CapabilityError: ONNX Runtime is not installed or cannot run the model.
    """
    recipe, source = recipe or Recipe(), spilled(model if isinstance(model, Model) else load_model(model))
    with runs_for(recipe) as runs:
        return calibrate_model(source, data, recipe, runs, progress, Extent(shard=shard)).ranges


def calibrate_to_file(
    model: str | Path | Model,
    data: str | Path | CalibrationData,
    output: str | Path,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
    shard: Shard | None = None,
) -> CalibrateReport:
    """As :func:`calibrate`, and write the ranges to a file.

    The file holds what is done from time to time, and at Ctrl-C; the same call goes on from there.

    Raises:
        OutputError: The file cannot be written.
    """
    recipe, output = recipe or Recipe(), Path(output)
    source = spilled(model if isinstance(model, Model) else load_model(model))
    check_output(output, [source.path] if source.path else [])
    with runs_for(recipe) as runs:
        done = calibrate_model(source, data, recipe, runs, progress, Extent(shard=shard, keep=output))
    write_atomically(output, encode_ranges(done.ranges))
    assert done.feeds is not None
    unseen, part = done.ranges.unseen(), done.ranges.part
    return CalibrateReport(
        model=str(source.path or ""),
        output=str(output),
        method=recipe.method,
        target=recipe.target,
        data=done.feeds.description,
        shard=f"{shard.number}/{shard.of}" if shard else None,
        samples=part.stop - part.start if part else len(done.feeds),
        resumed=done.resumed,
        tensors=len(done.ranges.tensors) - len(unseen),
        unseen=tuple(
            UnseenTensor(tensor=name, graph=display(scope), reason=done.ranges.unreadable.get((scope, name), NEVER_RUN))
            for scope, name in unseen
        ),
        preparation=done.prepared.reports,
    )


NEVER_RUN = (
    "it was never computed on the calibration data: its branch or loop body did not run, it had no elements, or "
    "nothing can read it"
)
NOT_GIVEN = "the given file has no range for it"


def calibrate_model(
    source: Model,
    data: str | Path | CalibrationData,
    recipe: Recipe,
    runs: FloatRuns,
    progress: Progress | None = None,
    extent: Extent | None = None,
) -> Calibrated:
    """The calibration of a loaded model, with the model that was really run; arguments and errors as `calibrate`.

    The session that ran it is left open in ``runs``.
    """
    if recipe.unit.weight_only:
        raise UsageError(
            f"quantize mode '{recipe.mode}' quantizes weights only: there are no ranges to find",
            hint="`qdqtool quantize` needs no ranges for it",
        )
    model, digests = with_fixed_shapes(source, recipe), list[bytes]()
    feeds = open_feeds(model, data, lambda sample: digests.append(sample_digest(sample)))
    prepared = prepared_for(recipe, model, feeds, runs)
    facts = runs.facts(prepared.model)
    proposal = propose_for(facts, recipe)
    refuse_nothing(proposal.slots, proposal.skipped)
    slots = [entry.slot for entry in proposal.slots if entry.kind == "activation"]
    values = [facts.view.scope(slot.scope).values[slot.tensor] for slot in slots]
    fold = RangeFold(facts, values, runs, histograms=calibrators.get(recipe.method).needs_histogram)
    record = CalibrationRecord(
        method=recipe.method,
        samples=len(feeds),
        random=feeds.description.seed is not None,
        seed=feeds.description.seed,
        data_sha256=data_digest(digests),
        model_sha256=model_digest(prepared.model),
        preparation=prepared.record,
        parameters=recipe.parameters(),
    )
    done = fold_samples(fold, record, Samples(feeds, digests), extent or Extent(), progress)
    return Calibrated(prepared, done.ranges, feeds, done.resumed)


def prepared_for(recipe: Recipe, model: Model, feeds: Feeds, runs: FloatRuns) -> Prepared:
    """A model prepared for what a recipe quantizes; arguments and errors as :func:`prepare`."""

    def slots(facts: Facts) -> Sequence[ProposedSlot]:
        return propose_for(facts, recipe).slots

    rounded = recipe.unit.integer_activations
    return prepare(model, feeds, runs, recipe.preparation, rounded_inputs=rounded, slots=slots)


def runs_for(recipe: Recipe) -> FloatRuns:
    """Runs of a float model that is calibrated or quantized so."""

    def read(facts: Facts) -> Iterator[Value]:
        yield from (value for value, _ in product_inputs(facts.view))
        if recipe.unit.weight_only:
            return
        with contextlib.suppress(UsageError):  # it is raised where the proposal counts
            for entry in propose_for(facts, recipe).slots:
                if entry.kind == "activation":
                    yield facts.view.scope(entry.slot.scope).values[entry.slot.tensor]

    return FloatRuns(read)


def with_fixed_shapes(source: Model, recipe: Recipe) -> Model:
    """The model with the input shapes that the user fixed.

    Raises:
        UsageError: They do not fit the model.
    """
    return specialize(source, recipe.input_shapes) if recipe.input_shapes else source


def propose_for(facts: Facts, recipe: Recipe) -> Proposal:
    """Where pairs go in a prepared model.

    Raises:
        UsageError: A pattern matches nothing.
    """
    unit, target = recipe.unit, targets.get(recipe.target)
    if unit.weight_only:
        goal = WeightGoal(unit, unit.block_size(recipe.block_size))
        return propose_weights(facts.view, facts.types, facts.constants, target, recipe.selection, goal)
    selection, number_format = recipe.selection, unit.activation_format
    proposal = propose(facts.view, facts.types, facts.constants, target, selection, number_format)
    slots = (replace(slot, scheme=_scheme(slot, unit)) for slot in proposal.slots)
    return replace(proposal, slots=tuple(slots))


def _scheme(slot: ProposedSlot, unit: modes.Mode) -> QuantScheme:
    fmt = unit.weight_format if slot.kind == "weight" else unit.activation_format
    return replace(slot.scheme, format=fmt)


def refuse_nothing(slots: Sequence[ProposedSlot], skipped: Sequence[SkippedNode]) -> None:
    """Raise unless there is something to quantize.

    Raises:
        UsageError: There is not; the message carries the first reason, of an operator that could gain if there is one.
    """
    if slots:
        return
    if not skipped:
        raise UsageError("nothing can be quantized: the model has no operator that gains from it")
    first = min(skipped, key=lambda node: node.reason.endswith(ASK))
    more = f" (and {len(skipped) - 1} more {'node' if len(skipped) == 2 else 'nodes'})" if len(skipped) > 1 else ""
    raise UsageError(f"nothing is left to quantize: '{first.node}' ({first.op_type}): {first.reason}{more}")
