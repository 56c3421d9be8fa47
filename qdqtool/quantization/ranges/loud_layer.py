"""A small layer that stays in float since it alone makes most of the noise, as a ranges file keeps it."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.method_choice import METHOD_CHOICE, MethodTrial
from qdqtool.quantization.ranges.types import PreparationStep

LOUD_LAYER = "float-layer"
"""Name under which a ranges file keeps the layer, among the steps of preparation."""

PLANNED = frozenset({METHOD_CHOICE, LOUD_LAYER})
"""Steps that change no weight: planners read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoudLayer:
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


def encode_loud(layer: LoudLayer) -> PreparationStep:
    """Return the layer as a ranges file keeps it."""
    return PreparationStep(LOUD_LAYER, msgspec.to_builtins(layer))


def recorded_loud(steps: Sequence[PreparationStep]) -> LoudLayer | None:
    """Return the layer that a calibration recorded; None where there is none.

    Raises:
        UsageError: The record is malformed.
    """
    for step in steps:
        if step.step == LOUD_LAYER:
            try:
                return msgspec.convert(dict(step.parameters), LoudLayer)
            except msgspec.ValidationError as error:
                reason = str(error).replace("`", "'")
                raise UsageError(
                    f"the ranges have a malformed step '{LOUD_LAYER}': {reason}",
                    hint="calibrate again, or use the qdqtool that wrote them",
                ) from None
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTrial:
    """What was tried on the quantized model.

    Attributes:
        methods: The effect of the calibration methods.
        loud: The small layer that stays in float; None where none does.
    """

    methods: MethodTrial
    loud: LoudLayer | None = None
