"""Apply a plan to a model, for `insert` and `quantize`."""

from dataclasses import dataclass

from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import ScopePath, display
from qdqtool.models.graph.transformed import Transformed
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.models.transforms.opset import upgrade_opset
from qdqtool.numerics.granularity import Blocked, PerAxis
from qdqtool.quantization.insertion.carry_over import carry_over
from qdqtool.quantization.insertion.pair_edits import PlacementEdits, WeightStorage

OPSET_WITH_AXIS = 13
OPSET_WITH_BLOCKS = 21
OPSET_WITH_HALF_SCALES = 19
OPSET_WITH_Q_TYPE = 21
"""The first opset in which a Q without a zero point states its output type (``output_dtype``)."""
OPSET_WITH_DQ_TYPE = 23
"""The first opset in which a DQ states its output type, for a scale of another type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedTensor:
    """One Q/DQ pair that was inserted.

    Attributes:
        tensor: Name of the float tensor.
        graph: Its scope; empty for the main graph.
        kind: ``weight`` for a constant, else ``activation``.
        format: Number format.
        granularity: The granularity of its scales, in words.
        scales: Number of scales.
        scale_min: Smallest scale.
        scale_max: Largest scale.
        consumers: Labels of the nodes that read the dequantized tensor.
        reason: The reason that the plan states.
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
class PlacedPairs:
    """A model with the pairs of a plan, and where they are.

    Attributes:
        model: The model.
        dequantized: Scope and name of the dequantized tensor of each pair, in the order of the plan.
        pairs: Description of each pair, in the same order.
    """

    model: Model
    dequantized: tuple[tuple[ScopePath, str], ...]
    pairs: tuple[QuantizedTensor, ...]


def apply_plan(
    source: Model, plan: QuantPlan, weights: WeightStorage = WeightStorage.PACKED
) -> Transformed[tuple[QuantizedTensor, ...]]:
    """Insert the pairs of a plan into a model in memory; raise opset and IR version only as far as needed.

    Args:
        source: The model that the plan was made for; it is not changed.
        plan: The pairs.
        weights: How quantized constants are stored.

    Returns:
        The quantized model, and every inserted pair, in the order of the plan.

    Raises:
        ModelError: The opset has to be raised, and an operator cannot be converted.
    """
    placed = place_pairs(source, plan, weights)
    return Transformed(placed.model, placed.pairs)


def place_pairs(source: Model, plan: QuantPlan, weights: WeightStorage = WeightStorage.PACKED) -> PlacedPairs:
    """Insert the pairs of a plan and say where they are; arguments and errors as :func:`apply_plan`."""
    index = ModelIndex.of(source.fork())
    missing = [needed for place in plan if (needed := needed_opset(place)) > index.value(place.slot).scope.opset]
    if missing:
        raised = ModelIndex.of(upgrade_opset(index.model, max(missing)).model)
        plan, index = carry_over(plan, index.view, raised.view), raised
    builder = PlacementEdits(index, weights)
    builder.add_plan(plan)
    labels = {(node.scope.path, node.key): node.label for node in index.view.nodes()}
    return PlacedPairs(
        model=apply_edits(index.model, builder.edits),
        dequantized=tuple((placement.slot.scope, builder.dequantized[placement]) for placement in plan),
        pairs=tuple(_describe(placement, builder, labels) for placement in plan),
    )


def needed_opset(placement: Placement) -> int:
    """Return the lowest default-domain opset in which a placement is legal ONNX."""
    scheme, scale = placement.params.scheme, placement.params.scale
    needs = [scheme.format.first_opset.quantize or 1]
    if isinstance(scheme.granularity, PerAxis):
        needs.append(OPSET_WITH_AXIS)
    if isinstance(scheme.granularity, Blocked):
        needs.append(OPSET_WITH_BLOCKS)
    if scale.dtype.itemsize == 2:
        needs.append(OPSET_WITH_HALF_SCALES)
    if scheme.scale_scheme is not None:
        first = scheme.scale_scheme.format.first_opset
        needs += [OPSET_WITH_Q_TYPE, first.scale or first.dequantize or 1]
    outer = placement.params.scale_params
    if outer is not None and outer.scale.dtype != scale.dtype:
        needs.append(OPSET_WITH_DQ_TYPE)
    return max(needs)


def _describe(
    placement: Placement, builder: PlacementEdits, labels: dict[tuple[ScopePath, tuple[str, ...]], str]
) -> QuantizedTensor:
    slot, params = placement.slot, placement.params
    value = builder.index.value(slot)
    if slot.uses is None:
        readers = [use.node.label for use in value.uses]
    else:
        readers = [labels[use.scope, use.node] for use in slot.uses]
    constant = builder.index.constants.is_constant(value)
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
