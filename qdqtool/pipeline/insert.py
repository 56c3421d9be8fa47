"""The insert job: put the Q/DQ pairs of a plan file into a model."""

from dataclasses import dataclass
from pathlib import Path

from qdqtool.errors import GateError
from qdqtool.graph.constants import Constants
from qdqtool.graph.external import model_bytes
from qdqtool.graph.load import load_model
from qdqtool.graph.model import Model
from qdqtool.graph.opset import upgrade_opset
from qdqtool.graph.save import ExternalData, check_output, save_model
from qdqtool.graph.scope import ScopePath, display
from qdqtool.graph.surgeon import apply_edits
from qdqtool.graph.types import TensorTypes
from qdqtool.graph.view import GraphView
from qdqtool.numerics.granularity import Blocked, PerAxis
from qdqtool.pipeline.check import DataRequest, check_model
from qdqtool.pipeline.placement_edits import PlacementEdits, WeightStorage
from qdqtool.pipeline.plan_file import PlanFile, read_plan_file
from qdqtool.pipeline.plan_resolve import resolve_plan
from qdqtool.pipeline.sizes import Sizes
from qdqtool.plan import Placement

OPSET_WITH_AXIS = 13
OPSET_WITH_BLOCKS = 21
OPSET_WITH_HALF_SCALES = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertOptions:
    """How a plan is put into a model.

    Attributes:
        weights: How quantized constants are stored.
        external_data: Where weights are stored.
        verify: Feeds with which the model is run before and after an opset upgrade; None to trust the upgrade.
    """

    weights: WeightStorage = WeightStorage.PACKED
    external_data: ExternalData = ExternalData.AUTO
    verify: DataRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedTensor:
    """One Q/DQ pair that was put in.

    Attributes:
        tensor: Name of the float tensor.
        graph: Its scope; empty for the main graph.
        kind: ``weight`` for a constant, else ``activation``.
        format: Number format.
        granularity: Over which elements a scale is shared, in words.
        scales: Number of scales.
        scale_min: Smallest scale.
        scale_max: Largest scale.
        consumers: Labels of the nodes that read the dequantized tensor.
        reason: Why, as the plan says.
    """

    tensor: str
    graph: str
    kind: str
    format: str
    granularity: str
    scales: int
    scale_min: float
    scale_max: float
    consumers: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertReport:
    """What insert did.

    Attributes:
        model: The input.
        output: The ``.onnx`` file written.
        external_data: The data file beside it, if any.
        opset_before: Default-domain opset of the input.
        opset_after: That of the output.
        verified: What ``verify`` showed; None where it was not asked for.
        quantized: Every pair that was put in.
        skipped: Always empty for a plan file: what a plan names and cannot be done is an error.
        sizes: File sizes.
    """

    model: str
    output: str
    external_data: str | None
    opset_before: int
    opset_after: int
    verified: str | None
    quantized: tuple[QuantizedTensor, ...]
    skipped: tuple[()] = ()
    sizes: Sizes


def insert_plan(
    model: str | Path | Model,
    plan: str | Path,
    output: str | Path,
    options: InsertOptions | None = None,
) -> InsertReport:
    """Put the Q/DQ pairs of a plan file into a model and write the result.

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        plan: The plan file, TOML or JSON (``docs/plan.md``).
        output: The ``.onnx`` file to write.
        options: How constants and external data are stored.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The plan is malformed or does not fit the model.
        OutputError: The output cannot be written.
        GateError: The opset upgrade was to be verified and changes an output.
    """
    options = options or InsertOptions()
    plan, output = Path(plan), Path(output)
    plan_file = read_plan_file(plan)
    source = model if isinstance(model, Model) else load_model(model)
    check_output(output, [source.path] if source.path else [])
    quantized, done = insert_into(source, plan_file, plan.parent, options.weights)
    verified = verify_upgrade(source, quantized.default_opset(), options.verify) if options.verify else None
    saved = save_model(quantized, output, external_data=options.external_data)
    return InsertReport(
        model=str(source.path or ""),
        output=str(saved.model),
        external_data=str(saved.data) if saved.data else None,
        opset_before=source.default_opset(),
        opset_after=quantized.default_opset(),
        verified=verified,
        quantized=done,
        sizes=Sizes(before=model_bytes(source), after=saved.bytes),
    )


def insert_into(
    source: Model, plan_file: PlanFile, folder: Path, weights: WeightStorage = WeightStorage.PACKED
) -> tuple[Model, tuple[QuantizedTensor, ...]]:
    """Put the pairs of a decoded plan into a model in memory; opset and IR version are raised only as far as needed.

    Args:
        source: The model; it is not changed.
        plan_file: The decoded plan.
        folder: What array references of the plan are relative to.
        weights: How quantized constants are stored.

    Raises:
        UsageError: The plan does not fit the model.
    """
    view = GraphView(source.fork())
    plan = resolve_plan(plan_file, view, TensorTypes(view), folder)
    missing = [needed for place in plan if (needed := needed_opset(place)) > view.scope(place.slot.scope).opset]
    if missing:
        view = GraphView(upgrade_opset(source, max(missing)))
        plan = resolve_plan(plan_file, view, TensorTypes(view), folder)
    builder = PlacementEdits(view, Constants(view), weights)
    builder.add_plan(plan)
    labels = {(node.scope.path, node.key): node.label for node in view.nodes()}
    done = tuple(_describe(placement, builder, labels) for placement in plan)
    return apply_edits(view.model, builder.edits), done


def verify_upgrade(source: Model, opset: int, request: DataRequest) -> str:
    """Run a model before and after its opset upgrade in the reference session; the outputs must be equal in every bit.

    Args:
        source: The model before.
        opset: The default-domain version that it is raised to.
        request: What to feed.

    Returns:
        What was shown, in words.

    Raises:
        GateError: An output differs.
    """
    if opset == source.default_opset():
        return f"opset {opset} was kept: nothing to verify"
    report = check_model(upgrade_opset(source, opset), baseline=source, data=request)
    changed = [output.name for output in report.outputs if not output.exact]
    if changed:
        raise GateError(
            f"the upgrade from opset {source.default_opset()} to {opset} changes output '{changed[0]}'",
            hint="export the model at the higher opset instead",
        )
    seen = f"{len(report.outputs)} outputs, {report.data.samples} samples"
    return f"opset {source.default_opset()} and {opset} give equal bits at {seen}"


def needed_opset(placement: Placement) -> int:
    """The lowest default-domain opset in which a placement is legal ONNX."""
    scheme, scale = placement.params.scheme, placement.params.scale
    needs = [scheme.format.first_opset.quantize or 1]
    if isinstance(scheme.granularity, PerAxis):
        needs.append(OPSET_WITH_AXIS)
    if isinstance(scheme.granularity, Blocked):
        needs.append(OPSET_WITH_BLOCKS)
    if scale.dtype.itemsize == 2:
        needs.append(OPSET_WITH_HALF_SCALES)
    return max(needs)


def _describe(
    placement: Placement, builder: PlacementEdits, labels: dict[tuple[ScopePath, tuple[str, ...]], str]
) -> QuantizedTensor:
    slot, params = placement.slot, placement.params
    value = builder.view.scope(slot.scope).values[slot.tensor]
    uses = value.uses if slot.uses is None else None
    readers = (
        [use.node.label for use in uses] if uses is not None else [labels[u.scope, u.node] for u in slot.uses or ()]
    )
    constant = builder.constants.is_constant(value)
    return QuantizedTensor(
        tensor=slot.tensor,
        graph=display(slot.scope),
        kind="weight" if constant else "activation",
        format=params.scheme.format.name,
        granularity=str(params.scheme.granularity),
        scales=int(params.scale.size),
        scale_min=float(params.scale.astype("float64").min()),
        scale_max=float(params.scale.astype("float64").max()),
        consumers=tuple(dict.fromkeys(readers)),
        reason=placement.reason,
    )
