"""Put what placement proposes into a model, with scales that need no data: what stands where is what matters."""

from pathlib import Path

import numpy as np
import onnx

from qdqtool import targets
from qdqtool.graph.constants import Constants
from qdqtool.graph.model import Model
from qdqtool.graph.save import save_model
from qdqtool.graph.surgeon import apply_edits
from qdqtool.graph.types import TensorTypes
from qdqtool.graph.view import GraphView
from qdqtool.numerics.granularity import PerAxis
from qdqtool.numerics.scheme import QuantParams
from qdqtool.pipeline.placement import Proposal, ProposedSlot, Selection, propose
from qdqtool.pipeline.placement_edits import PlacementEdits, WeightStorage
from qdqtool.plan import Placement, QuantPlan

ACTIVATION_SCALE = 0.05


def proposal(model: onnx.ModelProto | Model, selection: Selection | None = None, target: str = "tensorrt") -> Proposal:
    view = GraphView(model if isinstance(model, Model) else Model(model))
    return propose(view, TensorTypes(view), Constants(view), targets.get(target), selection or Selection())


def place(model: onnx.ModelProto, folder: Path, selection: Selection | None = None) -> onnx.ModelProto:
    """The model with every proposed pair."""
    slots = proposal(model, selection).slots
    view = GraphView(Model(model).fork())
    constants = Constants(view)
    builder = PlacementEdits(view, constants, WeightStorage.PACKED)
    builder.add_plan(
        QuantPlan(tuple(Placement(slot.slot, _params(slot, view, constants), slot.reason) for slot in slots))
    )
    save_model(apply_edits(view.model, builder.edits), folder / "placed.onnx")
    placed = onnx.load(folder / "placed.onnx")
    onnx.shape_inference.infer_shapes(placed, check_type=True, strict_mode=True)
    return placed


def _params(proposed: ProposedSlot, view: GraphView, constants: Constants) -> QuantParams:
    if proposed.kind == "activation":
        return QuantParams(proposed.scheme, np.float32(ACTIVATION_SCALE).reshape(()))
    weight = np.abs(constants.array(view.scope(proposed.slot.scope).values[proposed.slot.tensor]))
    granularity = proposed.scheme.granularity
    kept = {granularity.axis % weight.ndim} if isinstance(granularity, PerAxis) else set()
    others = tuple(axis for axis in range(weight.ndim) if axis not in kept)
    return QuantParams(proposed.scheme, np.asarray(weight.max(axis=others) / 127 + 1e-6, np.float32))
