"""The steps of preparing a float model, one in each module: the file name is the public id, ``STEP`` is the value.

All modules of the package are found by their file names: there is no list to edit.
"""

import functools
from collections.abc import Mapping

from qdqtool.quantization.preparation import steps as _package
from qdqtool.quantization.preparation.step import PreparationMethod, StepRequest
from qdqtool.registry import load_unit, unit_names


@functools.cache
def known_steps() -> Mapping[str, PreparationMethod]:
    """Return every step by its public id, in the order in which steps run."""
    found: list[PreparationMethod] = [load_unit(_package, name).STEP for name in unit_names(_package)]
    return {step.name: step for step in sorted(found, key=lambda step: step.order)}


def asked_steps(request: StepRequest) -> tuple[PreparationMethod, ...]:
    """Return the steps that are to be carried out, in order."""
    return tuple(step for step in known_steps().values() if step.is_asked(request))
