"""Rewrite foreign forms of quantization as Q/DQ of ONNX: one form for each module, found by walking the package.

A module holds a function ``find(context)`` that yields a :class:`qdqtool.linting.repair.fix_loop.Proposal` for each
place.
"""

from collections.abc import Iterator

from qdqtool.linting.repair import forms as _package
from qdqtool.linting.repair.fix_loop import Proposal
from qdqtool.linting.rules import RuleContext
from qdqtool.registry import load_unit, unit_names


def names() -> tuple[str, ...]:
    """The forms, sorted; an underscore is written as a dash."""
    return tuple(name.replace("_", "-") for name in sorted(unit_names(_package)))


def find_all(context: RuleContext) -> Iterator[Proposal]:
    """Yield every foreign form of a model."""
    for name in sorted(unit_names(_package)):
        yield from load_unit(_package, name).find(context)
