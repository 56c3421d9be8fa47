"""Quantize modes, one in each module: the file name (with ``-`` for ``_``) is the public id, ``MODE`` is the value.

Every signed number format is also a mode, with the same name: activations and weights both have this format.

``--help`` lists the modes, so listing them must not load heavy modules: number formats are imported when needed.
"""

import functools

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.quantization.planning import modes as _package
from qdqtool.quantization.planning.modes._mode import Mode as Mode
from qdqtool.registry import load_unit, suggestion, unit_names

DEFAULT = "int8"

FALLBACKS = ("int8", "fp8")
"""Formats of the layers that a search takes out of the format of a mode."""


@functools.cache
def units() -> tuple[str, ...]:
    """Return the sorted ids of the modes that have a module."""
    return tuple(name.replace("_", "-") for name in unit_names(_package))


@functools.cache
def in_order() -> tuple[str, ...]:
    """Return :func:`units` in the order of help texts: the most usual modes first."""
    return tuple(sorted(units(), key=lambda name: get(name).rank))


@functools.cache
def names() -> tuple[str, ...]:
    """Return the legal values of ``quantize_mode``: :func:`units`, and the signed formats of QuantizeLinear.

    An unsigned format would need zero points.
    """
    from qdqtool.numerics import formats

    signed = (name for name in formats.names() if formats.get(name).first_opset.quantize and formats.get(name).low < 0)
    return tuple(dict.fromkeys([*units(), *signed]))


@functools.cache
def get(name: str) -> Mode:
    """Return the mode with a public id.

    Raises:
        ArgumentError: There is no such mode; the message lists the legal names.
    """
    if name in units():
        found = load_unit(_package, name.replace("-", "_")).MODE
        assert isinstance(found, Mode)
        return found
    if name not in names():
        near = suggestion(name, names())
        raise ArgumentError(f"quantize mode '{name}' is unknown; legal: {', '.join(names())}{near}")
    return Mode(summary=f"{name} activations and weights", weights=name, activations=name)


def of_few_bits() -> tuple[str, ...]:
    """Return the modes with float activations and plain scales, sorted by bits, fewest first."""
    plain = (name for name in in_order() if not get(name).needs_ranges and get(name).scale_format is None)
    return tuple(sorted(plain, key=lambda name: get(name).weight_format.bits))


def fallback(name: str, number_format: str) -> str:
    """Return the mode that plans single layers in a secondary format.

    Args:
        name: Id of the mode of the other layers. Activations stay float in both modes, or in neither.
        number_format: One of :data:`FALLBACKS`.

    Raises:
        ArgumentError: The format is not in :data:`FALLBACKS`.
        UsageError: The mode has this format already.
    """
    if number_format not in FALLBACKS:
        hint = "`--high-precision-dtype fp16` stores the layers that stay in float as float16"
        legal = f"fallback '{number_format}' is unknown; legal: {', '.join(FALLBACKS)}"
        raise ArgumentError(legal, hint=hint if number_format == "fp16" else None)
    found = number_format if get(name).needs_ranges else f"{number_format}-weight-only"
    if get(found).weights == get(name).weights:
        raise UsageError(f"fallback '{number_format}' is the format of quantize mode '{name}' itself")
    return found


def with_weights(number_format: str) -> str | None:
    """Return the first mode with plain scales and weights in that number format, or None if there is none."""
    wanted = (number_format, None)
    return next((name for name in in_order() if (get(name).weights, get(name).scale_format) == wanted), None)
