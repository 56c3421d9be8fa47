"""The steps of preparing a float model, one a module; :func:`steps` gives those that are asked for, in their order."""

from qdqtool.planning.recipe import Preparation
from qdqtool.preparation.step import Step
from qdqtool.preparation.steps.batchnorm import BatchNormStep
from qdqtool.preparation.steps.equalization import EqualizationStep
from qdqtool.preparation.steps.smoothquant import SmoothQuantStep


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
