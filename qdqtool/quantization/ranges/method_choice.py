"""The calibration method that ``auto`` uses for a whole model, where the outputs keep more with it.

``auto`` judges each tensor by itself. But only the noise that reaches the outputs matters. So a calibration may try
other methods on the quantized model, and records here which one it chose. Every method clips values far apart from all
others, such as those of a mask, as ``auto`` does.
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
"""Name under which a ranges file keeps the choice, among the steps of preparation."""


def encode_choice(method: str) -> PreparationStep:
    """Return the choice as a ranges file keeps it."""
    return PreparationStep(METHOD_CHOICE, {"method": method})


def chosen_method(record: CalibrationRecord, method: str) -> str:
    """Return the method that chooses thresholds where a caller asks for ``method``."""
    return method if method != calibrators.DEFAULT else _choice(record.preparation)


def threshold(method: str, seen: TensorRange, goal: RangeGoal, *, automatic: bool) -> Threshold:
    """Choose the threshold of one tensor.

    Args:
        method: Id of the method, from :func:`chosen_method`.
        seen: Statistics of the tensor.
        goal: The purpose.
        automatic: Whether the method was chosen for ``auto``, which clips values that lie far apart in any case.
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
"""Name under which a ranges file keeps the layer, among the steps of preparation."""

PLANNED = frozenset({METHOD_CHOICE, DOMINANT_LAYER})
"""Steps that change no weight: planners read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DominantLayer:
    """A layer that makes most of the noise at the worst output, and costs next to nothing in float.

    Attributes:
        nodes: Its nodes: the scope path and the output names of each.
        noise_share: By which share the noise of that output falls without its pairs, 0 to 1.
        macs_share: Its share of the multiply-accumulates of all quantized layers.
        weights_share: Its share of their weights.
    """

    nodes: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    noise_share: float
    macs_share: float
    weights_share: float


def encode_dominant(layer: DominantLayer) -> PreparationStep:
    """Return the layer as a ranges file keeps it."""
    return PreparationStep(DOMINANT_LAYER, msgspec.to_builtins(layer))


def recorded_dominant(steps: Sequence[PreparationStep]) -> DominantLayer | None:
    """Return the layer that a calibration recorded; None where there is none.

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
    """What was tried on the quantized model.

    Attributes:
        methods: The effect of the calibration methods.
        dominant: The small layer that stays in float; None where none does.
    """

    methods: MethodTrial
    dominant: DominantLayer | None = None
