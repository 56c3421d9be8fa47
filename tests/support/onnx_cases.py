"""ONNX's own examples of its operators, as models of one node that ONNX Runtime runs on other data too."""

import functools
import importlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.backend.test.case import node as backend
from onnx.backend.test.case.test_case import TestCase

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.model import Model

Array = NDArray[Any]

OPSET, IR_VERSION = 26, 11
"""The newest that ONNX Runtime knows; the examples are written for newer ones, which mean the same."""


@dataclass(frozen=True, eq=False)
class OnnxCase:
    """One node.

    Attributes:
        name: As ONNX calls the example.
        model: The node in a model. The first input is fed, the others are initializers.
        inputs: Example values, None for absent inputs.
    """

    name: str
    model: onnx.ModelProto
    inputs: tuple[Array | None, ...]
    _parts: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    @property
    def proto(self) -> onnx.NodeProto:
        return self.model.graph.node[0]

    @property
    def x(self) -> Array:
        """The example of the first input."""
        assert self.inputs[0] is not None
        return self.inputs[0]

    @property
    def index(self) -> ModelIndex:
        if "index" not in self._parts:
            self._parts["index"] = ModelIndex.of(Model(self.model))
        return self._parts["index"]

    @property
    def node(self) -> NodeView:
        return next(self.index.view.nodes())

    def run(self, x: Array, others: Mapping[int, Array] | None = None) -> list[Array]:
        """What ONNX Runtime makes of another first input, and of other values of further ones."""
        fed = {0: x, **(others or {})}
        key = f"session {sorted(fed)}"
        if key not in self._parts:
            self._parts[key] = onnxruntime.InferenceSession(self._with_inputs(fed).SerializeToString(), _quiet())
        feeds = {self.proto.input[position]: array for position, array in fed.items()}
        return [np.asarray(made) for made in self._parts[key].run(None, feeds)]

    def _with_inputs(self, fed: Mapping[int, Array]) -> onnx.ModelProto:
        model = onnx.ModelProto.FromString(self.model.SerializeToString())
        for position in sorted(fed)[1:]:
            name = self.proto.input[position]
            kept = [stored for stored in model.graph.initializer if stored.name != name]
            del model.graph.initializer[:]
            model.graph.initializer.extend(kept)
            elem_type = onnx.helper.np_dtype_to_tensor_dtype(fed[position].dtype)
            model.graph.input.append(onnx.helper.make_tensor_value_info(name, elem_type, fed[position].shape))
        return model


def floats(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def integers(*values: int) -> Array:
    return np.array(values, np.int64)


def random_like(array: Array, seed: int = 5) -> Array:
    """Distinct floats of either sign, of that shape."""
    return np.random.default_rng(seed).standard_normal(array.shape).astype(array.dtype)


@functools.cache
def node_cases(op_type: str) -> tuple[OnnxCase, ...]:
    """The examples of an operator, with floats for its first input, that ONNX Runtime runs."""
    found = ((case.name, case.model, case.data_sets[0][0]) for case in backend_cases(op_type))
    arrays = [each for each in found if each[2] and all(map(_is_array, each[2]))]
    cases = (_in_floats(name, model, [np.asarray(value) for value in values]) for name, model, values in arrays)
    return tuple(case for case in cases if case is not None and _runs(case))


@functools.cache
def backend_cases(op_type: str) -> tuple[TestCase, ...]:
    """ONNX's cases of a model with this node alone; of its files those that name it, since all take five seconds."""
    (folder,) = backend.__path__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some examples divide by zero on purpose
        for path in sorted(Path(folder).glob("*.py")):
            if f'"{op_type}"' in path.read_text("utf-8"):
                importlib.import_module(f"{backend.__name__}.{path.stem}")
    cases = ((case, case.model.graph.node) for case in backend._NodeTestCases)
    return tuple(case for case, nodes in cases if [(node.op_type, node.domain) for node in nodes] == [(op_type, "")])


def _is_array(given: object) -> bool:
    return isinstance(given, np.ndarray | np.generic) and given.dtype != object


def _in_floats(name: str, model: onnx.ModelProto, values: list[Array]) -> OnnxCase | None:
    """An example with float32 for the type of its first input; None where that is none of numbers, or empty."""
    node = model.graph.node[0]
    arrays = dict(zip((info.name for info in model.graph.input), values, strict=True))
    inputs = [arrays.get(given) for given in node.input]
    first, formal = inputs[0], onnx.defs.get_schema(node.op_type, OPSET).inputs
    if first is None or not first.size or first.dtype.kind not in "fiu":
        return None
    typed = [formal[min(position, len(formal) - 1)].type_str == formal[0].type_str for position in range(len(inputs))]
    floats = [
        array.astype(np.float32) if array is not None and is_own else array
        for array, is_own in zip(inputs, typed, strict=True)
    ]
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    return make_case(node.op_type, floats, attributes, name=name, outputs=len(node.output))


def make_case(
    op_type: str, inputs: list[Array | None], attributes: dict[str, Any], *, name: str = "", outputs: int = 1
) -> OnnxCase:
    """A model of one node; the types of its outputs are left to the runtime."""
    names = [f"i{position}" if array is not None else "" for position, array in enumerate(inputs)]
    made = [f"y{position}" for position in range(outputs)]
    node = onnx.helper.make_node(op_type, names, made, **attributes)
    first = inputs[0]
    assert first is not None
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [onnx.helper.make_tensor_value_info("i0", onnx.helper.np_dtype_to_tensor_dtype(first.dtype), first.shape)],
        [onnx.ValueInfoProto(name=output) for output in made],
        [numpy_helper.from_array(array, names[i]) for i, array in enumerate(inputs) if i and array is not None],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return OnnxCase(name or f"{op_type}{attributes}", model, tuple(inputs))


def _runs(case: OnnxCase) -> bool:
    try:
        case.run(case.x)
    except Exception:  # noqa: BLE001  ONNX Runtime has no kernel for it, or refuses how the example is written
        return False
    return True


def _quiet() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options
