"""Making a float model ready to be quantized, in steps that change its weights and not what it computes.

A step is one module with a class; :func:`steps` says which ones options ask for, in their order.
"""

from dataclasses import dataclass

from qdqtool.pipeline.preparation._step import Change, Site, Step
from qdqtool.pipeline.preparation.batchnorm import BatchNormStep
from qdqtool.pipeline.preparation.equalization import EqualizationStep

__all__ = ["Change", "Preparation", "Site", "Step", "known_steps", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Which steps are asked for.

    Attributes:
        equalize: Whether ranges of channels are evened out between layers.
    """

    equalize: bool = True


def steps(asked: Preparation) -> tuple[Step, ...]:
    """The steps, in the order in which they are made."""
    found: list[Step] = [BatchNormStep()]
    if asked.equalize:
        found.append(EqualizationStep())
    return tuple(found)


def known_steps() -> dict[str, Step]:
    """Every step by its name, ready to replay what a ranges file recorded."""
    everything: tuple[Step, ...] = (BatchNormStep(), EqualizationStep())
    return {step.name: step for step in everything}
