"""Put what placement proposes into a model, with scales that need no data: what stands where is what matters."""

from pathlib import Path

import numpy as np
import onnx

from qdqtool.models import targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerAxis
from qdqtool.numerics.scheme import QuantParams
from qdqtool.quantization.insertion.apply_plan import apply_plan
from qdqtool.quantization.planning.placement import PlacementProposal, ProposedSlot, Selection, propose

LARGEST_ACTIVATION = 6.0


def proposal(
    model: onnx.ModelProto | Model,
    selection: Selection | None = None,
    target: str = "tensorrt",
    number_format: str = "int8",
) -> PlacementProposal:
    index = ModelIndex.of(model if isinstance(model, Model) else Model(model))
    return propose(index, targets.get(target), selection or Selection(), formats.get(number_format))


def place(
    model: onnx.ModelProto, folder: Path, selection: Selection | None = None, number_format: str = "int8"
) -> onnx.ModelProto:
    """The model with every proposed pair, written to ``placed.onnx`` too."""

    index = ModelIndex.of(Model(model))
    slots = proposal(model, selection, number_format=number_format).slots
    plan = QuantPlan(tuple(Placement(e.slot, _params(e, index), e.reason) for e in slots))
    placed = apply_plan(Model(model), plan).model
    save_model(placed, folder / "placed.onnx")
    written = onnx.load(folder / "placed.onnx")
    onnx.shape_inference.infer_shapes(written, check_type=True, strict_mode=True)
    return written


def _params(proposed: ProposedSlot, index: ModelIndex) -> QuantParams:
    high = proposed.scheme.format.high
    value = index.value(proposed.slot)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(index.types.elem_type(value))
    if proposed.kind == "activation":
        return QuantParams(proposed.scheme, np.asarray(LARGEST_ACTIVATION / high, dtype))
    weight = np.abs(index.constants.array(value).astype(np.float32))
    granularity = proposed.scheme.granularity
    kept = {granularity.axis % weight.ndim} if isinstance(granularity, PerAxis) else set()
    others = tuple(axis for axis in range(weight.ndim) if axis not in kept)
    return QuantParams(proposed.scheme, np.asarray(weight.max(axis=others) / high + 1e-6, dtype))
