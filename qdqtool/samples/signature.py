"""The inputs of a model with types and shapes, and input shapes that a user fixes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx

from qdqtool.errors import CapabilityError, UsageError
from qdqtool.models.graph.index.types import known_size
from qdqtool.models.graph.model import Model
from qdqtool.models.targets import type_name
from qdqtool.models.transforms.specialize_values import fixed_values
from qdqtool.numerics.dtypes import BFLOAT16, FLOAT32, Array
from qdqtool.registry import suggestion

Dim = int | str | None

_FEEDABLE = frozenset("biufc")


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input of a model.

    Attributes:
        name: Name of the input.
        dtype: NumPy type of the data. For a bfloat16 input it is float32; values are rounded to bfloat16 later.
        shape: One entry for each dimension: an extent, the name of a symbolic dimension, or None for an unnamed dynamic
            dimension. If the model does not declare the rank, the shape itself is None.
        value: None, or the value of a former input that is a constant now: data may hold it, but no run needs it.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[Dim, ...] | None
    value: Array | None = field(default=None, compare=False)

    @property
    def batch(self) -> int:
        """The extent of the first axis; 1 if that extent is dynamic."""
        first = self.shape[0] if self.shape else None
        return first if isinstance(first, int) and first > 0 else 1

    def __str__(self) -> str:
        dims = (
            "unknown rank" if self.shape is None else f"[{', '.join('?' if d is None else str(d) for d in self.shape)}]"
        )
        return f"{self.name}: {self.dtype} {dims}"


def input_specs(model: Model) -> tuple[InputSpec, ...]:
    """Return the inputs that a run needs, in order; an input with an initializer is not needed."""
    graph = model.proto.graph
    stored = {tensor.name for tensor in graph.initializer}
    return tuple(_spec(value) for value in graph.input if value.name not in stored)


def stored_specs(model: Model) -> tuple[InputSpec, ...]:
    """Return the inputs that ``--input-values`` turned into constants, as the model's metadata record them."""
    return tuple(InputSpec(name, value.dtype, value.shape, value) for name, value in fixed_values(model).items())


def needed(specs: Sequence[InputSpec]) -> tuple[InputSpec, ...]:
    """Return the inputs that a run needs: those without a constant value."""
    return tuple(spec for spec in specs if spec.value is None)


def with_shapes(specs: Sequence[InputSpec], shapes: Mapping[str, Sequence[int]]) -> tuple[InputSpec, ...]:
    """Return ``specs`` with the shapes that a user fixed.

    Raises:
        UsageError: A name is not an input, or an extent contradicts the model.
    """
    names = [spec.name for spec in specs]
    for name in shapes:
        if name not in names:
            raise UsageError(
                f"--input-shapes names '{name}', which is no input; {_legal(names)}{suggestion(name, names)}"
            )
    return tuple(_fixed(spec, shapes[spec.name]) if spec.name in shapes else spec for spec in specs)


def _legal(names: Sequence[str]) -> str:
    return f"the inputs are {', '.join(names)}" if names else "the model has no inputs"


def _spec(value: onnx.ValueInfoProto) -> InputSpec:
    if not value.type.HasField("tensor_type"):
        raise CapabilityError(f"input '{value.name}' is no tensor; only tensors can be fed")
    tensor = value.type.tensor_type
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    except KeyError:
        raise CapabilityError(f"input '{value.name}' has no element type") from None
    if dtype == BFLOAT16:
        dtype = FLOAT32
    if dtype.kind not in _FEEDABLE:
        name = type_name(tensor.elem_type)
        raise CapabilityError(f"input '{value.name}' has type {name}, which cannot be fed to ONNX Runtime from NumPy")
    return InputSpec(value.name, dtype, _shape(tensor) if tensor.HasField("shape") else None)


def _shape(tensor: onnx.TypeProto.Tensor) -> tuple[Dim, ...]:
    return tuple(known_size(dim) or dim.dim_param or None for dim in tensor.shape.dim)


def _fixed(spec: InputSpec, shape: Sequence[int]) -> InputSpec:
    declared = spec.shape if spec.shape is not None else (None,) * len(shape)
    if not fits(shape, declared):
        wanted = "x".join(map(str, shape))
        raise UsageError(f"--input-shapes {spec.name}:{wanted} contradicts the model, which has {spec}")
    return replace(spec, shape=tuple(shape))


def fits(shape: Sequence[int], declared: Sequence[Dim]) -> bool:
    """Return whether a shape fits the declared shape; a dynamic dimension fits any extent."""
    return len(shape) == len(declared) and all(
        not isinstance(known, int) or known == extent for extent, known in zip(shape, declared, strict=True)
    )


def check_names(names: Mapping[str, object], specs: Sequence[InputSpec], where: str) -> None:
    """Check that ``names`` are exactly the needed inputs. Former inputs that are constants now are allowed too.

    Raises:
        UsageError: An input is missing, or a name is not an input.
    """
    legal, wanted = [spec.name for spec in specs], [spec.name for spec in needed(specs)]
    for name in names:
        if name not in legal:
            listed = ", ".join(wanted) or "none"
            unnamed = name.startswith("arr_") and wanted
            raise UsageError(
                f"{where}: '{name}' is no input of the model; its inputs: {listed}{suggestion(name, legal)}",
                hint=f"name the array: numpy.savez(file, {wanted[0]}=array)" if unnamed else None,
            )
    missing = [name for name in wanted if name not in names]
    if missing:
        raise UsageError(f"{where}: input '{missing[0]}' is missing; found: {', '.join(names) or 'nothing'}")
