"""Resolve every dynamic input of a model to an optimization profile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from qdqtool.engines.report import InputProfile
from qdqtool.errors import ModelError, UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.registry import suggestion
from qdqtool.samples.input_shapes import Shapes, spell_shape
from qdqtool.samples.noise import shapes_hint

Dims = tuple[int | str | None, ...]
Sizes = tuple[int, int, int]
"""The sizes of a dimension in ``min``, ``opt`` and ``max``."""
_ONE: Sizes = (1, 1, 1)
"""The sizes of the batch, unless a shape is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeOptions:
    """Shapes by input name, as the user gave them.

    Attributes:
        min: Smallest shapes.
        opt: Shapes to optimize for.
        max: Largest shapes.
        fixed: Shapes that are used as smallest, optimal and largest shape.
    """

    min: Shapes = field(default_factory=dict)
    opt: Shapes = field(default_factory=dict)
    max: Shapes = field(default_factory=dict)
    fixed: Shapes = field(default_factory=dict)


def check_shapes(proto: onnx.ModelProto, options: ShapeOptions) -> None:
    """Check that the user's shapes fit the inputs."""
    _check_given(_input_dims(proto), options)


def resolve_profiles(
    proto: onnx.ModelProto, options: ShapeOptions, measured: Mapping[str, InputProfile] | None = None
) -> tuple[InputProfile, ...]:
    """Return a profile for each dynamic input; static inputs get none.

    A symbolic first dimension is the batch. Its symbol becomes 1 in all inputs, unless a shape is given. If a given
    shape decides the size of a symbol, the symbol has this size in all inputs.

    Args:
        proto: The model.
        options: Shapes from the user. If only one or two of an input's three shapes are given, the others are derived
            from them.
        measured: Shapes of the data, for inputs that the user does not name.

    Raises:
        UsageError: A name is not an input, a shape does not fit its input, min <= opt <= max does not hold, or a
            dynamic dimension has no size. The hint has an option to paste.
        ModelError: An input declares no shape.
    """
    inputs = _input_dims(proto)
    _check_given(inputs, options)
    given = {name: profile for name in inputs if (profile := _given(name, options)) is not None}
    settled = _settled(inputs, given)
    for name, profile in (measured or {}).items():
        given.setdefault(name, _adapted(profile, inputs[name], settled))
    symbols = _settled(inputs, given)
    for dims in inputs.values():
        if dims and isinstance(dims[0], str):
            symbols.setdefault(dims[0], _ONE)
    dynamic = {name: dims for name, dims in inputs.items() if not all(isinstance(dim, int) for dim in dims)}
    found = {name: given.get(name) or _from_symbols(name, dims, symbols) for name, dims in dynamic.items()}
    complete = tuple(profile for profile in found.values() if profile is not None)
    missing = {name: inputs[name] for name, profile in found.items() if profile is None}
    if missing:
        raise _missing(proto, missing, symbols, {profile.name: profile.opt for profile in complete})
    return complete


def _input_dims(proto: onnx.ModelProto) -> dict[str, Dims]:
    constants = {tensor.name for tensor in proto.graph.initializer}
    found: dict[str, Dims] = {}
    for value in proto.graph.input:
        # An initializer that is also a graph input is taken as a constant by TensorRT, which drops the input.
        if value.name in constants or not value.type.HasField("tensor_type"):
            continue
        # Measured: the parser treats an input without a shape as a scalar, without a message.
        if not value.type.tensor_type.HasField("shape"):
            raise ModelError(
                f"input '{value.name}' declares no shape; TensorRT would read it as a scalar",
                hint="declare its rank in the model; dimensions may stay symbolic",
            )
        found[value.name] = tuple(_extent(dim) for dim in value.type.tensor_type.shape.dim)
    return found


def _extent(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return dim.dim_param or None


def _check_given(inputs: Mapping[str, Dims], options: ShapeOptions) -> None:
    by_option = {
        "--min-shapes": options.min,
        "--opt-shapes": options.opt,
        "--max-shapes": options.max,
        "--input-shapes": options.fixed,
    }
    for option, shapes in by_option.items():
        for name, shape in shapes.items():
            if name not in inputs:
                raise UsageError(
                    f"{option} names '{name}', which is no input{suggestion(name, inputs)}",
                    hint=f"inputs: {', '.join(inputs) or 'none'}",
                )
            _check_shape(option, name, shape, inputs[name])
    both = set(options.fixed) & {*options.min, *options.opt, *options.max}
    if both:
        raise UsageError(f"input '{min(both)}' has both --input-shapes and --min/opt/max-shapes; give one of them")


def _check_shape(option: str, name: str, shape: tuple[int, ...], dims: Dims) -> None:
    declared = _declared(dims)
    if len(shape) != len(dims):
        raise UsageError(
            f"{option} gives '{name}' rank {len(shape)} ({spell_shape(shape)}); the model declares {declared}"
        )
    for axis, (size, dim) in enumerate(zip(shape, dims, strict=True)):
        if isinstance(dim, int) and size != dim:
            raise UsageError(f"{option} gives dimension {axis} of '{name}' size {size}; the model declares {declared}")


def _given(name: str, options: ShapeOptions) -> InputProfile | None:
    low, best, high = (shapes.get(name, options.fixed.get(name)) for shapes in (options.min, options.opt, options.max))
    best = best or high or low
    if best is None:
        return None
    profile = InputProfile(name, low or best, best, high or best)
    for axis, sizes in enumerate(zip(profile.min, profile.opt, profile.max, strict=True)):
        if list(sizes) != sorted(sizes):
            raise UsageError(
                f"shapes of '{name}' must not decrease from min to opt to max; dimension {axis} has"
                f" {sizes[0]}, {sizes[1]}, {sizes[2]}"
            )
    return profile


def _adapted(profile: InputProfile, dims: Dims, settled: Mapping[str, Sizes]) -> InputProfile:
    """Return the measured shapes; where a given shape decides the size of a symbol, the symbol has this size."""
    symbols = [dim if isinstance(dim, str) else "" for dim in dims]
    measured = zip(symbols, profile.min, profile.opt, profile.max, strict=True)
    return _profile(profile.name, [settled.get(symbol, (low, best, high)) for symbol, low, best, high in measured])


def _settled(inputs: Mapping[str, Dims], given: Mapping[str, InputProfile]) -> dict[str, Sizes]:
    """Return the sizes of each known symbolic dimension."""
    symbols: dict[str, Sizes] = {}
    for name, profile in given.items():
        for dim, low, best, high in zip(inputs[name], profile.min, profile.opt, profile.max, strict=True):
            if isinstance(dim, str):
                symbols.setdefault(dim, (low, best, high))
    return symbols


def _from_symbols(name: str, dims: Dims, symbols: Mapping[str, Sizes]) -> InputProfile | None:
    """Return the profile of an input without a given shape, or None if a dimension has no size."""
    known = (
        (dim, dim, dim) if isinstance(dim, int) else symbols.get(dim or "", None if axis else _ONE)
        for axis, dim in enumerate(dims)
    )
    sizes = [each for each in known if each is not None]
    return _profile(name, sizes) if len(sizes) == len(dims) else None


def _profile(name: str, sizes: Sequence[Sizes]) -> InputProfile:
    low, best, high = (tuple(each[kind] for each in sizes) for kind in range(3))
    return InputProfile(name, low, best, high)


def _missing(
    proto: onnx.ModelProto, inputs: Mapping[str, Dims], symbols: Mapping[str, Sizes], given: Shapes
) -> UsageError:
    """Return the error for ``inputs``, which have dynamic dimensions without a size; others are ``given``."""
    name = next(iter(inputs))
    unknown = [
        f"{axis} ({dim})" if dim else str(axis)
        for axis, dim in enumerate(inputs[name])
        if axis and not isinstance(dim, int) and (dim is None or dim not in symbols)
    ]
    others = len(inputs) - 1
    more = f", and {others} more {'inputs have' if others > 1 else 'input has'} such dimensions" if others else ""
    known = {symbol: best for symbol, (_, best, _) in symbols.items()}
    hint = shapes_hint(ModelIndex.of(Model(proto)), "--opt-shapes", inputs, known, given)
    return UsageError(
        f"input '{name}' {_declared(inputs[name])} has dynamic dimensions without a size: {', '.join(unknown)}{more}",
        hint=f"{hint} (--min-shapes and --max-shapes give a range; --input-shapes fixes them and folds If nodes)",
    )


def _declared(dims: Dims) -> str:
    return f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]"
