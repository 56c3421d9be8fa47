"""Change the types of a model's inputs and outputs: to a float type, or to the codes of its first Q and last DQ.

The report describes what the application must feed and what it receives.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from onnx import TensorProto

from qdqtool.models.graph.edits.edit import AddNode, Edit, RemoveNode, RenameOutput, SetAttribute, SetInput
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.model_index import FLOATS, ModelIndex
from qdqtool.models.graph.index.qdq import DEQUANTIZE, QUANTIZE
from qdqtool.models.graph.index.view import NodeView, Use, Value
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import MAIN, ScopePath
from qdqtool.models.options import IoTypes
from qdqtool.models.targets import type_name
from qdqtool.models.transforms.interface import required_inputs
from qdqtool.models.transforms.opset import upgrade_opset
from qdqtool.numerics import formats

OPSET_WITH_BFLOAT16 = 13
"""The first opset whose Cast accepts bfloat16."""

Kind = Literal["input", "output"]

_FLOAT_TYPES = {IoTypes.FP16: TensorProto.FLOAT16, IoTypes.BF16: TensorProto.BFLOAT16, IoTypes.FP32: TensorProto.FLOAT}


@dataclass(frozen=True, slots=True)
class InterfaceChange:
    """A float input or output whose type changed, or cannot be changed.

    Attributes:
        tensor: Name of the input or output.
        kind: Whether the application feeds it or receives it.
        before: Its type before.
        after: Its type now.
        scale: For codes: the scale, or one scale for each entry of ``axis``; empty for a float type.
        zero_point: For codes: as many zero points as scales.
        axis: The axis of several scales; None for one scale.
        reason: Why the type did not change; empty if it changed.
    """

    tensor: str
    kind: Kind
    before: str
    after: str
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int | None = None
    reason: str = ""

    def __str__(self) -> str:
        """Return what the application must know, in one sentence."""
        name = f"{self.kind} '{self.tensor}'"
        if self.reason:
            return f"{name} stays {self.before}: {self.reason}"
        if not self.scale:
            return f"{name} is {self.after} instead of {self.before}"
        return f"{name} has {self.after} codes instead of {self.before}: the application {self._formula}"

    @property
    def _formula(self) -> str:
        scale, point = f"{self.scale[0]:.9g}", str(self.zero_point[0])
        if self.axis is not None:
            scale, point = (f"the {word} of axis {self.axis}" for word in ("scale", "zero point"))
        if self.kind == "output":
            return f"computes {'code' if point == '0' else f'(code - {point})'} * {scale}"
        return f"feeds round(x / {scale}){'' if point == '0' else f' + {point}'}, half to even and saturated"


@dataclass(frozen=True, slots=True)
class _Codes:
    """The type, scale and zero point of codes, by which they are compared."""

    onnx_type: int
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None


def with_io_types(model: Model, io_types: IoTypes) -> Transformed[tuple[InterfaceChange, ...]]:
    """Return a model whose float inputs and outputs have other types. Integer and Boolean ones are left alone.

    A float type: where the model casts an input to this type or an output from this type, that Cast is removed. Other
    inputs and outputs get a Cast. The results are those of the given model with inputs and outputs cast by the
    application, up to the roundings of the removed Casts.

    Quantized: an input that only equal Q nodes read becomes the input of their codes, and an output that a DQ makes
    becomes the output of its codes. These Q and DQ are removed. Others stay, with the reason.

    Returns:
        The changed model, or the given model if nothing has to change; the report has no entry for an input or output
        that already has the type.
    """
    if io_types is IoTypes.KEEP:
        return Transformed(model, ())
    if io_types is IoTypes.BF16:
        model = upgrade_opset(model, OPSET_WITH_BFLOAT16).model
    wanted = _FLOAT_TYPES.get(io_types)
    # One after the other: a Cast, Q or DQ may stand between an input and an output.
    inputs = _Interface(ModelIndex.of(model))
    inputs.change_inputs(wanted)
    outputs = _Interface(ModelIndex.of(inputs.applied()))
    outputs.change_outputs(wanted)
    return Transformed(outputs.applied(), (*inputs.changes, *outputs.changes))


@dataclass(slots=True)
class _Interface:
    """Builds the edits of the inputs, or of the outputs, of a model."""

    index: ModelIndex
    changes: list[InterfaceChange] = field(default_factory=list)
    _edits: list[Edit] = field(default_factory=list)
    _types: dict[str, int] = field(default_factory=dict)
    _moved: dict[Value, str] = field(default_factory=dict)
    _namer: Namer = field(init=False)
    _dead: DeadCode = field(init=False)

    def __post_init__(self) -> None:
        self._namer, self._dead = Namer(self.index.view), DeadCode(self.index.view)

    def applied(self) -> Model:
        """Return the model with the changes."""
        if not self._types:
            return self.index.model
        edits = [*self._edits, *self._dead.edits()]
        model = self.index.model
        done = apply_edits(model, edits) if edits else model.fork(copy_model(model.proto))
        graph = done.proto.graph
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.name in self._types:
                value.type.tensor_type.elem_type = self._types[value.name]
        return done

    def change_inputs(self, wanted: int | None) -> None:
        """Change the float inputs to a type, or to codes if the type is None."""
        graph = self.index.model.proto.graph
        returned = {value.name for value in graph.output}
        for declared in required_inputs(self.index.model.proto):
            value, old = self.index.view.main.values[declared.name], declared.type.tensor_type.elem_type
            if old not in FLOATS or old == wanted:
                continue
            if wanted is None:
                self._feed_codes(value, old)
                continue
            self._note(value.name, "input", old, wanted)
            if value.name in returned:
                self._note(value.name, "output", old, wanted)
            self._feed(value, old, wanted)

    def change_outputs(self, wanted: int | None) -> None:
        """Change the float outputs to a type, or to codes if the type is None."""
        for declared in self.index.model.proto.graph.output:
            value, old = self.index.view.main.values.get(declared.name), declared.type.tensor_type.elem_type
            if value is None or old not in FLOATS or old == wanted:
                continue
            if wanted is None:
                self._return_codes(value, old)
            elif value.producer is None:
                self._refuse(value, "output", old, "it is a constant, or an input with a default value")
            else:
                self._note(value.name, "output", old, wanted)
                self._return(value, value.producer, old, wanted)

    def _feed(self, value: Value, old: int, wanted: int) -> None:
        others: list[Use] = []
        for use in value.uses:
            made = use.node.output()
            if made is None or not use.node.is_op("Cast") or use.node.attribute("to") != wanted:
                others.append(use)
            elif not made.is_output:
                self._edits.append(RemoveNode(use.node.scope.path, use.node.key))
                self._let_read(made.uses, value.name)
        self._cast_for(others, value.name, old)

    def _return(self, value: Value, maker: NodeView, old: int, wanted: int) -> None:
        source = maker.input(0) if maker.is_op("Cast") else None
        if source is None or self.index.elem_type(source) != wanted:
            inner = self._rename(value, maker, old)
            self._let_read(value.uses, inner)
            self._add("Cast", inner, value.name, to=wanted)
            return
        if self._is_movable(source):
            self._move(source, value, maker)
            self._edits.append(RemoveNode(maker.scope.path, maker.key))
        else:
            self._edits.append(SetAttribute(maker.scope.path, maker.key, "to", wanted))
        self._cast_for(value.uses, value.name, old)

    def _feed_codes(self, value: Value, old: int) -> None:
        found = [self._codes(use.node, value, QUANTIZE) for use in value.uses]
        codes = next((each for each in found if isinstance(each, str)), found[0] if found else "no node reads it")
        if value.is_output:
            codes = "the model returns it too"
        elif len(set(found)) > 1 and not isinstance(codes, str):
            codes = "its QuantizeLinear nodes have different types, scales or zero points"
        if isinstance(codes, str):
            self._refuse(value, "input", old, codes)
            return
        self._note(value.name, "input", old, codes.onnx_type, codes)
        for use in value.uses:
            self._drop_quantizer(use.node, value)

    def _drop_quantizer(self, node: NodeView, value: Value) -> None:
        self._remove(node)
        for made in node.present_outputs:
            if made.is_output:
                self._add("Identity", value.name, made.name, scope=node.scope.path)
            else:
                self._let_read(made.uses, value.name)

    def _return_codes(self, value: Value, old: int) -> None:
        maker, codes = value.producer, self._codes(value.producer, value, DEQUANTIZE)
        data = maker.input(0) if maker is not None else None
        if isinstance(codes, str) or maker is None or data is None:
            self._refuse(value, "output", old, str(codes))
            return
        self._note(value.name, "output", old, codes.onnx_type, codes)
        if self._is_movable(data):
            self._move(data, value, maker)
        else:
            self._add("Identity", self._moved.get(data, data.name), value.name)
        if value.uses:
            self._edits.append(SetInput(maker.scope.path, maker.key, 0, value.name))
            self._let_read(value.uses, self._rename(value, maker, old))
        else:
            self._dead.keep(data)
            self._remove(maker)

    def _remove(self, node: NodeView) -> None:
        self._dead.drop_node(node)
        self._edits.append(RemoveNode(node.scope.path, node.key))

    def _codes(self, node: NodeView | None, value: Value, op_type: str) -> _Codes | str:
        """Return the codes of a Q that reads a tensor or of a DQ that makes it, or why there are none."""
        entry = self.index.qdq.get(node)
        if node is None:
            return "no node makes it"
        if entry is None or entry.standard_name != op_type or value not in (entry.data, entry.output):
            verb = ("reads", "quantize") if op_type == QUANTIZE else ("makes", "dequantize")
            return f"{node.op_type} '{node.label}' {verb[0]} it and does not {verb[1]} it"
        fmt, readable = formats.by_onnx_type(entry.quantized_type or 0), self.index.constants.readable
        scale = readable(entry.scale) if entry.scale is not None else None
        point = np.zeros_like(scale) if entry.zero_point is None else readable(entry.zero_point)
        if fmt is None or fmt.bits != 8 or entry.block_size or scale is None or point is None or scale.ndim > 1:
            return f"the codes of '{node.label}' are not of 8 bits, or their scale is computed or has blocks"
        axis = entry.axis + (entry.data_rank or 0) * (entry.axis < 0) if scale.size > 1 else None
        scales, points = (array.astype(np.float64).reshape(-1).tolist() for array in (scale, point))
        return _Codes(fmt.onnx_type, tuple(scales), tuple(map(int, points)), axis)

    def _is_movable(self, value: Value) -> bool:
        """Return whether the node that makes a tensor can return it under the name of an output."""
        stays = value.producer is None or value.is_output or value in self._moved
        return not stays and value.scope is self.index.view.main

    def _move(self, source: Value, value: Value, reader: NodeView) -> None:
        """Return ``source`` as the output ``value``; its other readers follow."""
        assert source.producer is not None
        self._moved[source] = value.name
        place = list(source.producer.key).index(source.name)
        self._edits.append(RenameOutput(source.scope.path, source.producer.key, place, value.name))
        self._let_read((use for use in source.uses if use.node is not reader), value.name)

    def _rename(self, value: Value, maker: NodeView, elem_type: int) -> str:
        name = self._namer.tensor(f"{value.name}_{type_name(elem_type)}")
        self._edits.append(RenameOutput(maker.scope.path, maker.key, list(maker.key).index(value.name), name))
        return name

    def _cast_for(self, uses: list[Use], source: str, to: int) -> None:
        if uses:
            name = self._namer.tensor(f"{source}_{type_name(to)}")
            self._add("Cast", source, name, to=to)
            self._let_read(uses, name)

    def _add(self, op_type: str, source: str, output: str, scope: ScopePath = MAIN, **attributes: int) -> None:
        name = self._namer.node(f"{output}_{op_type}")
        self._edits.append(AddNode(scope, op_type, (source,), (output,), name, attributes=attributes))

    def _let_read(self, uses: Iterable[Use], name: str) -> None:
        self._edits += [SetInput(use.node.scope.path, use.node.key, use.index, name) for use in uses]

    def _note(self, name: str, kind: Kind, old: int, new: int, codes: _Codes | None = None) -> None:
        self._types[name] = new
        scale, point, axis = (codes.scale, codes.zero_point, codes.axis) if codes is not None else ((), (), None)
        words = type_name(old), type_name(new)
        self.changes.append(InterfaceChange(name, kind, *words, scale, point, axis))

    def _refuse(self, value: Value, kind: Kind, old: int, reason: str) -> None:
        self.changes.append(InterfaceChange(value.name, kind, type_name(old), type_name(old), reason=reason))
