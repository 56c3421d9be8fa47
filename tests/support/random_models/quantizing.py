"""A graph that grows with Q/DQ in it, in every way that ONNX allows and ONNX Runtime's CPU provider runs."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto

from support.random_models.growing import Growing, Tensor


@dataclass(frozen=True, slots=True)
class Codes:
    """A type of codes: its lowest and highest integer (None for fp8), and the first opset that has it."""

    type: int
    bounds: tuple[int, int] | None
    opset: int


INT8 = Codes(TensorProto.INT8, (-128, 127), 13)
UINT8 = Codes(TensorProto.UINT8, (0, 255), 13)
FLOAT8 = Codes(TensorProto.FLOAT8E4M3FN, None, 19)
CODES = (
    INT8,
    UINT8,
    FLOAT8,
    Codes(TensorProto.FLOAT8E5M2, None, 19),
    Codes(TensorProto.INT4, (-8, 7), 21),
    Codes(TensorProto.UINT4, (0, 15), 21),
    Codes(TensorProto.INT16, (-32768, 32767), 21),
    Codes(TensorProto.UINT16, (0, 65535), 21),
)
RETURNED = frozenset({TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16})
"""Types of codes that ONNX Runtime's Python returns: outputs of the graph have one of these."""


@dataclass(frozen=True, slots=True)
class Constants:
    """What a Q, and each DQ of its codes, reads besides its data.

    Attributes:
        scale: The tensor that is the scale.
        zero_point: The zero point; empty where there is none.
        codes: The type of the codes.
        attributes: Of Q and DQ alike.
        only_q: Of the Q alone.
        is_zero: Whether the zero point may be left out of a DQ.
    """

    scale: str
    zero_point: str
    codes: Codes
    attributes: dict[str, int]
    only_q: dict[str, int]
    is_zero: bool

    @property
    def inputs(self) -> list[str]:
        return [self.scale, self.zero_point] if self.zero_point else [self.scale]


@dataclass(frozen=True, slots=True)
class Quantized:
    """A Q: what it reads, its codes and its constants."""

    source: Tensor
    codes: str
    constants: Constants


class Quantizing(Growing):
    """A model in the making, with Q/DQ in front of what operators read.

    Attributes:
        quantized: Every Q that is visible, the newest last.
        dequantized: For a tensor, what its DQs make.
        returned: Codes that the graph returns, with their shape and type.
    """

    def __init__(self, draw: st.DrawFn, opset: int, float_type: int) -> None:
        super().__init__(draw, opset, float_type)
        self.quantized: list[Quantized] = []
        self.dequantized: dict[str, list[str]] = {}
        self.returned: list[Tensor] = []
        self._scales: dict[tuple[object, ...], str] = {}

    def visible(self) -> dict[str, Any]:
        known = {name: list(made) for name, made in self.dequantized.items()}
        own = {"quantized": list(self.quantized), "dequantized": known, "_scales": dict(self._scales)}
        return super().visible() | own

    def read(self, tensor: Tensor) -> str:
        if not self.takes_pairs(tensor.type):
            return tensor.name
        match self.pick("float", "pair", "pair", "known", "second", "double"):
            case "float":
                return tensor.name
            case "known" if self.dequantized.get(tensor.name):
                return self.pick(*self.dequantized[tensor.name])
            case "second" if found := [each for each in self.quantized if each.source == tensor]:
                return self._dequantize(found[-1])
            case "double":
                inner = replace(tensor, name=self._pair(tensor))
                return self._pair(inner)
        return self._pair(tensor)

    def weight(self, shape: tuple[int, ...], elem_type: int, axis: int, fan_in: int = 1) -> str:
        if not self.takes_pairs(elem_type) or self.chance(4):
            return self.stored(shape, elem_type, fan_in)
        constants = self._constants(shape, elem_type, self.pick(None, axis, axis, -1), weight=True)
        if self.chance(2):
            return self.node(
                "DequantizeLinear",
                [self._stored_codes(shape, constants.codes), *constants.inputs],
                **constants.attributes,
            )
        stored = Tensor(self.stored(shape, elem_type, fan_in), shape, elem_type)
        return self._dequantize(self._quantize(stored, constants))

    def bias(self, length: int, elem_type: int) -> str:
        if not self.takes_pairs(elem_type) or not self.chance(2):
            return self.stored((length,), elem_type)
        codes = self.constant(self.rng.integers(-99, 99, length), TensorProto.INT32, "b")
        return self.node("DequantizeLinear", [codes, self._scale((), elem_type)])

    def takes_pairs(self, elem_type: int) -> bool:
        """Whether a Q reads this type: float16 scales came with opset 19."""
        return elem_type == TensorProto.FLOAT or (elem_type == TensorProto.FLOAT16 and self.opset >= 19)

    def _pair(self, tensor: Tensor) -> str:
        axis = self.pick(None, None, None, *range(1, len(tensor.shape)))
        quantized = self._quantize(tensor, self._constants(tensor.shape, tensor.type, axis, weight=False))
        if axis is None and self.chance(8):
            return self._moved(quantized)
        return self._dequantize(quantized)

    def _quantize(self, source: Tensor, constants: Constants) -> Quantized:
        attributes = constants.attributes | constants.only_q
        codes = self.node("QuantizeLinear", [source.name, *constants.inputs], **attributes)
        self.quantized.append(Quantized(source, codes, constants))
        if self.depth == 0 and constants.codes.type in RETURNED and self.chance(8):
            self.returned.append(Tensor(codes, source.shape, constants.codes.type))
        return self.quantized[-1]

    def _dequantize(self, quantized: Quantized) -> str:
        constants = quantized.constants
        short = constants.is_zero and constants.zero_point and self.chance(4)
        inputs = [constants.scale] if short else constants.inputs
        made = self.node("DequantizeLinear", [quantized.codes, *inputs], **constants.attributes)
        self.dequantized.setdefault(quantized.source.name, []).append(made)
        return made

    def _moved(self, quantized: Quantized) -> str:
        """Dequantize codes behind an operator that only moves them, and move them back."""
        source, constants = quantized.source, quantized.constants
        if constants.codes not in {INT8, UINT8}:
            return self._dequantize(quantized)
        order = [0, *range(len(source.shape) - 1, 0, -1)]
        moved = self.node("Transpose", [quantized.codes], perm=order)
        made = self.node("DequantizeLinear", [moved, *constants.inputs])
        return self.node("Transpose", [made], perm=order)

    def _stored_codes(self, shape: tuple[int, ...], codes: Codes) -> str:
        if codes.bounds is None:
            return self.constant(self.rng.uniform(-8, 8, shape), codes.type, "w")
        return self.constant(self.rng.integers(codes.bounds[0], codes.bounds[1], shape, endpoint=True), codes.type, "w")

    def _constants(self, shape: tuple[int, ...], elem_type: int, axis: int | None, *, weight: bool) -> Constants:
        codes = self.pick(*(each for each in CODES if each.opset <= self.opset))
        attributes, scale_shape = self._granularity(shape, axis, weight=weight)
        scale = self._scale(scale_shape, elem_type, may_be_computed=not scale_shape, step=_step(codes))
        zero = 0 if codes.bounds is None else self.pick(0, 0, codes.bounds[0], codes.bounds[1] // 3, codes.bounds[1])
        absent = zero == 0 and self.chance(2)
        if absent and (codes.type == TensorProto.UINT8 or self.opset >= 21):
            only_q = {"output_dtype": codes.type} if codes.type != TensorProto.UINT8 or self.chance(2) else {}
            if self.opset < 21:
                only_q = {}
            return Constants(scale, "", codes, attributes, only_q, is_zero=True)
        zero_point = self._zero_point(np.full(scale_shape, zero), codes)
        return Constants(scale, zero_point, codes, attributes, {}, is_zero=zero == 0)

    def _granularity(
        self, shape: tuple[int, ...], axis: int | None, *, weight: bool
    ) -> tuple[dict[str, int], tuple[int, ...]]:
        """Return the attributes and the shape of the scale: of a tensor, along an axis, or in blocks along it."""
        if axis is None or not shape:
            return {}, self.pick((), (1,))
        block = next((size for size in (2, 3) if shape[axis] % size == 0), None)
        if self.opset >= 21 and block and (weight or not self.dynamic) and self.chance(2):
            blocks = list(shape)
            blocks[axis] //= block
            return {"axis": axis, "block_size": block}, tuple(blocks)
        if axis == 1 and self.chance(2):
            return {}, (shape[1],)  # the default axis
        return {"axis": axis}, (shape[axis],)

    def _scale(
        self, shape: tuple[int, ...], elem_type: int, *, may_be_computed: bool = False, step: float = 0.02
    ) -> str:
        """Return a scale: one that others have, a new constant, one that folds to a constant, or one that does not."""
        key = (shape, elem_type, step)
        kind = self.pick("new", "new", "shared", "folded", "input", "measured", "codes")
        if kind == "shared" and key in self._scales:
            return self._scales[key]
        values = step * np.exp2(self.rng.integers(0, 3, shape)) * self.pick(1, 1, 1.1)
        if kind == "folded":
            return self.node("Mul", [self.constant(values / 2, elem_type), self.constant(2.0, elem_type)])
        if kind == "codes" and shape and self.opset >= 21:
            codes = self.constant(self.rng.integers(1, 99, shape), TensorProto.INT8, "s")
            return self.node("DequantizeLinear", [codes, self.constant(step / 32, elem_type)])
        if kind == "input" and may_be_computed and self.depth == 0 and self.chance(3):
            return self._scale_input(elem_type)
        if kind == "measured" and may_be_computed and self.tensors and self.chance(2):
            return self._measured(elem_type, step)
        self._scales[key] = self.constant(values, elem_type, "s")
        return self._scales[key]

    def _scale_input(self, elem_type: int) -> str:
        """Return an input of the graph that is the scale."""
        name = f"scale_{elem_type}"
        if all(info.name != name for info in self.inputs):
            self.add_input((), elem_type, name)
        return name

    def _measured(self, elem_type: int, step: float) -> str:
        """Return a scale that the model computes from a tensor: larger than ``step``."""
        fitting = [each for each in self.tensors if each.type == elem_type]
        if not fitting:
            return self._scale((), elem_type, step=step)
        source = self.pick(*fitting)
        largest = self.node("ReduceMax", [self.node("Abs", [source.name])], keepdims=0)
        part = self.node("Mul", [largest, self.constant(step, elem_type)])
        return self.node("Add", [part, self.constant(step, elem_type)])

    def _zero_point(self, values: np.ndarray, codes: Codes) -> str:
        zero_point = self.constant(values, codes.type, "z")
        # ONNX Runtime has no Identity of smaller codes.
        return self.node("Identity", [zero_point]) if codes in {INT8, UINT8} and self.chance(6) else zero_point


def _step(codes: Codes) -> float:
    """Return a scale whose codes hold values of some ones."""
    if codes.bounds is None:
        return 1 / 32
    return 8 / (codes.bounds[1] - codes.bounds[0])
