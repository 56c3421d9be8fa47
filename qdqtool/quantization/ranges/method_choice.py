"""The calibration method that ``auto`` uses for a whole model, if the outputs get more precise with it.

``auto`` judges each tensor separately, but only the noise that reaches the outputs matters. So a calibration may try
other methods on the quantized model, and records the chosen method here. Every method then clips values far from all
others, such as masks, as ``auto`` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from qdqtool.errors import UsageError
from qdqtool.quantization.calibration_report import MethodTrial
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.calibrators import RangeGoal, Threshold
from qdqtool.quantization.ranges.types import CalibrationRecord, PreparationStep, TensorRange

METHOD_CHOICE = "calibration-method"
"""Name under which a ranges file stores the choice, among the preparation steps."""


def encode_choice(method: str) -> PreparationStep:
    """Return the choice as the preparation step that a ranges file stores."""
    return PreparationStep(METHOD_CHOICE, {"method": method})


def chosen_method(record: CalibrationRecord, method: str) -> str:
    """Return the method that chooses thresholds if a caller requests ``method``."""
    return method if method != calibrators.DEFAULT else _choice(record.preparation)


def threshold(method: str, seen: TensorRange, goal: RangeGoal, *, automatic: bool) -> Threshold:
    """Choose the threshold of one tensor.

    Args:
        method: Id of the method, from :func:`chosen_method`.
        seen: Statistics of the tensor.
        goal: The purpose of the threshold.
        automatic: Whether the method was chosen for ``auto``, which always clips outliers.
    """
    if automatic and method != calibrators.DEFAULT:
        found = calibrators.get(calibrators.DEFAULT).threshold(seen, goal)
        if found.apart is not None:
            return found
    return calibrators.get(method).threshold(seen, goal)


def _choice(steps: Sequence[PreparationStep]) -> str:
    for step in steps:
        if step.step == METHOD_CHOICE:
            name = step.parameters.get("method")
            if not isinstance(name, str) or name not in calibrators.names():
                raise UsageError(
                    f"the ranges have a malformed step '{METHOD_CHOICE}': method {name!r}",
                    hint="calibrate again, or use the qdqtool that wrote them",
                )
            return name
    return calibrators.DEFAULT


DOMINANT_LAYER = "float-layer"
"""Name under which a ranges file stores the layer, among the preparation steps."""

PLANNED = frozenset({METHOD_CHOICE, DOMINANT_LAYER})
"""Recorded steps that change no weight; planners read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DominantLayer:
    """A layer that makes most of the noise at the worst output, and costs almost nothing in float.

    Attributes:
        nodes: The scope path and the output names of each node of the layer.
        noise_share: The share of the noise of that output that disappears without the pairs of the layer, 0 to 1.
        macs_share: The share of the layer in the multiply-accumulates of all quantized layers.
        weights_share: The share of the layer in the weights of all quantized layers.
    """

    nodes: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    noise_share: float
    macs_share: float
    weights_share: float


def encode_dominant(layer: DominantLayer) -> PreparationStep:
    """Return the layer as the preparation step that a ranges file stores."""
    return PreparationStep(DOMINANT_LAYER, msgspec.to_builtins(layer))


def recorded_dominant(steps: Sequence[PreparationStep]) -> DominantLayer | None:
    """Return the layer that a calibration recorded, or None if it recorded none.

    Raises:
        UsageError: The record is malformed.
    """
    for step in steps:
        if step.step == DOMINANT_LAYER:
            try:
                return msgspec.convert(dict(step.parameters), DominantLayer)
            except msgspec.ValidationError as error:
                reason = str(error).replace("`", "'")
                raise UsageError(
                    f"the ranges have a malformed step '{DOMINANT_LAYER}': {reason}",
                    hint="calibrate again, or use the qdqtool that wrote them",
                ) from None
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTrial:
    """The results of trials on the quantized model.

    Attributes:
        methods: The effect of the calibration methods.
        dominant: The small layer that stays in float; None if there is none.
    """

    methods: MethodTrial
    dominant: DominantLayer | None = None
