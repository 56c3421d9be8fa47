"""Values of inputs that decide shapes, such as the target shape of a Reshape: TensorRT needs their range too.

TensorRT calls such inputs shape tensors. Only its parser knows which inputs are shape tensors. So values from the user
or the data are first checked against the inputs of the model, and later against the parsed network in the child
process.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto

from qdqtool.engines.report import InputProfile
from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.model import Model
from qdqtool.registry import suggestion
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.input_shapes import Shapes, spell_shapes

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)
# Operators with the index of an input that is a shape. Input 0 may already have this shape, so its extents are a valid
# example.
_KEEPS_SHAPE = {"Reshape": 1, "Expand": 1, "Resize": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeValues:
    """Values by input name, as the user gave them."""

    min: Shapes = field(default_factory=dict)
    opt: Shapes = field(default_factory=dict)
    max: Shapes = field(default_factory=dict)


def resolve_values(model: Model, options: ShapeValues) -> tuple[InputProfile, ...]:
    """Return the values from the user; missing minima, optima or maxima of an input are filled from the given ones."""
    inputs = _integer_inputs(model)
    found: list[InputProfile] = []
    for name in dict.fromkeys((*options.opt, *options.min, *options.max)):
        low, best, high = (values.get(name) for values in (options.min, options.opt, options.max))
        best = best or high or low
        assert best is not None
        profile = InputProfile(name, low or best, best, high or best)
        _check(profile, inputs, model)
        found.append(profile)
    return tuple(found)


def measure_values(feeds: Feeds) -> tuple[InputProfile, ...]:
    """Return the smallest, most frequent and largest values of integer scalars and vectors in the data."""
    seen: dict[str, Counter[tuple[int, ...]]] = {}
    for sample in feeds:
        for name, array in sample.items():
            if array.ndim <= 1 and array.dtype in {np.dtype(np.int32), np.dtype(np.int64)}:
                seen.setdefault(name, Counter())[tuple(int(value) for value in array.reshape(-1))] += 1
    # Vectors with a changing length are left out: TensorRT accepts only shape tensors with a fixed length.
    fixed = {name: counts for name, counts in seen.items() if len({len(values) for values in counts}) == 1}
    return tuple(_span(name, counts) for name, counts in fixed.items())


def missing_values(model: Model, names: Sequence[str]) -> UsageError:
    """Return the error for inputs that decide shapes, according to the parser, but have no values."""
    inputs = _integer_inputs(model)
    example = {name: _example(inputs[name], ModelIndex.of(model)) for name in names if name in inputs}
    quoted = ", ".join(f"'{name}'" for name in names)
    who = f"input {quoted} decides shapes by its" if len(names) == 1 else f"inputs {quoted} decide shapes by their"
    return UsageError(
        f"{who} values, and the builder needs to know them",
        hint=f"give your values, for example: `--opt-shape-values {shlex.quote(spell_shapes(example))}`"
        " (and --min-shape-values, --max-shape-values for a range; or --calib-data)",
    )


def used_values(request_values: Iterable[InputProfile], shape_inputs: Sequence[str]) -> tuple[InputProfile, ...]:
    """Return the given values of inputs that decide shapes.

    Raises:
        UsageError: Values are given for an input that decides no shape.
    """
    found = tuple(request_values)
    idle = next((profile.name for profile in found if profile.name not in shape_inputs), None)
    if idle is not None:
        raise UsageError(
            f"--opt-shape-values names '{idle}', whose values decide no shape",
            hint=f"inputs whose values decide shapes: {', '.join(shape_inputs) or 'none'}",
        )
    return found


def _integer_inputs(model: Model) -> dict[str, Value]:
    main = ModelIndex.of(model).view.main
    types = ModelIndex.of(model).types
    values = (main.values[name] for name in main.input_names())
    return {
        value.name: value
        for value in values
        if value.initializer is None and types.elem_type(value) in _INTEGERS and len(types.shape(value) or ()) <= 1
    }


def _check(profile: InputProfile, inputs: Mapping[str, Value], model: Model) -> None:
    name = profile.name
    if name not in inputs:
        raise UsageError(
            f"--opt-shape-values names '{name}', not an integer input of rank 0 or 1{suggestion(name, inputs)}",
            hint=f"integer inputs of rank 0 or 1: {', '.join(inputs) or 'none'}",
        )
    shape = ModelIndex.of(model).types.shape(inputs[name])
    count = len(profile.opt)
    if shape is not None and shape != ((count,) if shape else ()) and not (shape == () and count == 1):
        raise UsageError(f"--opt-shape-values gives '{name}' {count} values; expected {shape[0] if shape else 1}")
    if not len(profile.min) == count == len(profile.max):
        raise UsageError(f"the values of '{name}' differ in number between min, opt and max")
    for place, values in enumerate(zip(profile.min, profile.opt, profile.max, strict=True)):
        if list(values) != sorted(values):
            shown = ", ".join(map(str, values))
            raise UsageError(f"values of '{name}' must not decrease from min to opt to max; value {place} has {shown}")


def _span(name: str, counts: Counter[tuple[int, ...]]) -> InputProfile:
    places = list(zip(*counts, strict=True))
    best = max(counts.items(), key=lambda entry: (entry[1], entry[0]))[0]
    return InputProfile(name, tuple(map(min, places)), best, tuple(map(max, places)))


def _example(value: Value, index: ModelIndex) -> tuple[int, ...]:
    """Return example values: extents of the data that the values would reshape, or ones."""
    shape = index.types.shape(value)
    count = shape[0] if shape and isinstance(shape[0], int) else 1
    for use in value.uses:
        if _KEEPS_SHAPE.get(use.node.op_type) == use.index:
            data = use.node.input(0)
            extents = index.types.shape(data) if data is not None else None
            sizes = [extent for extent in extents or () if isinstance(extent, int)]
            if extents is not None and len(sizes) == len(extents):
                return _padded(sizes, count)
    return (1,) * count


def _padded(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """Return ``count`` extents with the same product as ``sizes``."""
    missing = count - len(sizes)
    if missing >= 0:
        return (1,) * missing + tuple(sizes)
    return (int(np.prod(sizes[: 1 - missing])), *sizes[1 - missing :])
