"""Quantize modes, one a module: the file name (``-`` for ``_``) is the public id, ``MODE`` the value.

Besides these, any signed number format is a mode under its own name: the same format for activations and weights.
"""

import functools

import numpy as np

from qdqtool import formats, targets
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.numerics.dtypes import FLOAT8E8M0, FLOAT32
from qdqtool.numerics.scheme import QuantParams
from qdqtool.planning import modes as _package
from qdqtool.planning.modes._mode import Mode as Mode
from qdqtool.registry import load_unit, suggestion, unit_names
from qdqtool.targets import refusals

DEFAULT = "int8"


def units() -> tuple[str, ...]:
    """The modes with a module of their own, sorted."""
    return tuple(name.replace("_", "-") for name in unit_names(_package))


@functools.cache
def names() -> tuple[str, ...]:
    """What ``quantize_mode`` may be: :func:`units`, and the signed formats that QuantizeLinear makes.

    An unsigned format would need zero points.
    """
    signed = (name for name in formats.names() if formats.get(name).first_opset.quantize and formats.get(name).low < 0)
    return tuple(dict.fromkeys([*units(), *signed]))


@functools.cache
def get(name: str) -> Mode:
    """The mode of that public id.

    Raises:
        ArgumentError: There is none; the message lists the legal names.
    """
    if name not in names():
        near = suggestion(name, names())
        raise ArgumentError(f"quantize mode '{name}' is unknown; legal: {', '.join(names())}{near}")
    if name not in units():
        return Mode(summary=f"{name} activations and weights", weights=name, activations=name)
    found = load_unit(_package, name.replace("-", "_")).MODE
    assert isinstance(found, Mode)
    return found


def require_target(name: str, target: str) -> None:
    """Raise unless a target takes the formats of a mode: asked before any model is read or run.

    Raises:
        UsageError: It does not; the hint names the nearest that it takes.
        ArgumentError: There is no such mode or target.
    """
    mode = get(name)
    scheme = mode.example_scheme()
    powers = scheme.scale_scheme is not None and scheme.scale_scheme.format.dtype == FLOAT8E8M0
    params = QuantParams(scheme, np.ones((), FLOAT8E8M0 if powers else FLOAT32))
    found = next(refusals(targets.get(target), params, "float32", None), None)
    if found is None:
        return
    nearest = f"--quantize-mode {mode.alternative}" if mode.alternative else found.alternative
    raise UsageError(
        f"quantize mode '{name}': {target} {found.reason}",
        hint=f"nearest alternative: {nearest or 'none; choose another target'}",
    )
