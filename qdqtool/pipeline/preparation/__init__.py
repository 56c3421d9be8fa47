"""Making a float model ready to be quantized, in steps that change its weights and not what it computes.

A step is one module with a class; :func:`steps` says which ones options ask for, in their order.
"""

from dataclasses import dataclass
from typing import Literal

from qdqtool.errors import ArgumentError
from qdqtool.pipeline.preparation._step import Change, Site, Step
from qdqtool.pipeline.preparation.batchnorm import BatchNormStep
from qdqtool.pipeline.preparation.equalization import EqualizationStep
from qdqtool.pipeline.preparation.smoothquant import SmoothQuantStep

__all__ = ["Change", "Preparation", "Site", "Step", "known_steps", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Which steps are asked for.

    Attributes:
        equalize: Whether ranges of channels are evened out between layers.
        smoothquant: Alpha from 0 to 1 for SmoothQuant behind normalizations, ``auto`` to search one for each that has
            outlier channels, or None to leave them as they are.
        bias_correction: Whether biases make up for what quantized weights lose; it changes nothing before that.
    """

    equalize: bool = True
    smoothquant: float | Literal["auto"] | None = "auto"
    bias_correction: bool = True

    def __post_init__(self) -> None:
        alpha = self.smoothquant
        if not (alpha is None or alpha == "auto" or (isinstance(alpha, float) and 0 <= alpha <= 1)):
            raise ArgumentError(f"smoothquant is {alpha!r}; legal: 'auto', or a number from 0 to 1")


def steps(asked: Preparation, *, rounded_inputs: bool = True) -> tuple[Step, ...]:
    """The steps, in the order in which they are made.

    Args:
        asked: Which are asked for.
        rounded_inputs: Whether activations will have steps of one size. Else outlier channels do no harm, and are left
            alone unless an alpha is given.
    """
    found: list[Step] = [BatchNormStep()]
    if asked.equalize:
        found.append(EqualizationStep(rounded_inputs=rounded_inputs))
    if isinstance(asked.smoothquant, float):
        found.append(SmoothQuantStep(asked.smoothquant))
    elif asked.smoothquant == "auto" and rounded_inputs:
        found.append(SmoothQuantStep())
    return tuple(found)


def known_steps() -> dict[str, Step]:
    """Every step by its name, ready to replay what a ranges file recorded."""
    everything: tuple[Step, ...] = (BatchNormStep(), EqualizationStep(), SmoothQuantStep())
    return {step.name: step for step in everything}
