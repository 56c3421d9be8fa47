"""The insert job: put the Q/DQ pairs of a plan file into a model."""

from dataclasses import dataclass, field
from pathlib import Path

from qdqtool.errors import GateError
from qdqtool.graph.external import model_bytes
from qdqtool.graph.load import load_model
from qdqtool.graph.model import Model
from qdqtool.graph.opset import upgrade_opset
from qdqtool.graph.save import ExternalData, check_output, save_model
from qdqtool.graph.types import TensorTypes
from qdqtool.graph.view import GraphView
from qdqtool.pipeline.check import DataRequest, check_model
from qdqtool.pipeline.placement_edits import WeightStorage
from qdqtool.pipeline.plan_apply import QuantizedTensor, apply_plan
from qdqtool.pipeline.plan_file import PlanFile, read_plan_file
from qdqtool.pipeline.plan_resolve import resolve_plan
from qdqtool.pipeline.sizes import Sizes
from qdqtool.pipeline.target_fit import RefusedBy, refused_by_any, require_targets
from qdqtool.plan import QuantPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertOptions:
    """How a plan is put into a model.

    Attributes:
        weights: How quantized constants are stored.
        external_data: Where weights are stored.
        targets: Who is to load the result: what one of them does not take is refused. Empty for no such check.
        verify: Feeds with which the model is run before and after an opset upgrade; None to trust the upgrade.
    """

    weights: WeightStorage = WeightStorage.PACKED
    external_data: ExternalData = ExternalData.AUTO
    targets: tuple[str, ...] = ()
    verify: DataRequest | None = None


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
        refused_by: For each target that does not take the result, the first reason.
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
    refused_by: tuple[RefusedBy, ...]
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
        UsageError: The plan is malformed, does not fit the model, or has something that a target does not take.
        OutputError: The output cannot be written.
        GateError: The opset upgrade was to be verified and changes an output.
    """
    options = options or InsertOptions()
    plan, output = Path(plan), Path(output)
    plan_file = read_plan_file(plan)
    source = model if isinstance(model, Model) else load_model(model)
    check_output(output, [source.path] if source.path else [])
    planner = _Planner(plan_file, plan.parent, options.targets)
    quantized, done = apply_plan(source, planner, options.weights)
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
        refused_by=planner.refused_by,
        sizes=Sizes(before=model_bytes(source), after=saved.bytes),
    )


@dataclass(slots=True)
class _Planner:
    """Makes the plan of a file for a model, and asks the targets about it.

    Attributes:
        plan_file: The decoded plan.
        folder: What array references of the plan are relative to.
        targets: Who must take it.
        refused_by: Who does not take the plan that was made last.
    """

    plan_file: PlanFile
    folder: Path
    targets: tuple[str, ...]
    refused_by: tuple[RefusedBy, ...] = field(default=())

    def __call__(self, view: GraphView) -> QuantPlan:
        types = TensorTypes(view)
        plan = resolve_plan(self.plan_file, view, types, self.folder)
        require_targets(plan, view, types, self.targets)
        self.refused_by = refused_by_any(plan, view, types)
        return plan


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
    seen = f"outputs: {len(report.outputs)}, samples: {report.data.samples}"
    return f"opset {source.default_opset()} and {opset} give equal bits ({seen})"
