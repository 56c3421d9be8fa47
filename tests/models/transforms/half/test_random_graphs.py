"""Whatever the graph: the result is valid, keeps its interface, and holds no value in float16 that float16 does not."""

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from support.half import in_half, outputs_of, types_of
from support.small import make_model

SIZE = 6
SCALARS = (1.0, 0.1, -3.0, 1e-12, 1e-6, 2e4, 1e6)
UNARY = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Identity", "Transpose", "Softmax", "Sqrt")
BINARY = ("Add", "Sub", "Mul", "MatMul", "Max", "Where", "Div")
OTHER = ("pair", "scaled", "counted", "summed", "shared", "branch")


class Growing:
    """A graph of square matrices that overflow, vanish, are counted, quantized, and handed to a branch.

    Args:
        draw: Hypothesis's choices.
    """

    def __init__(self, draw):
        self.draw = draw
        self.nodes, self.names, self.weights = [], ["x"], {}

    def add(self, op_type, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def number(self, value, dtype=np.float32):
        name = f"c{len(self.weights)}"
        self.weights[name] = np.asarray(value, dtype)
        return name

    def any_tensor(self):
        return self.draw(st.sampled_from(self.names))

    def grow(self, kind):
        a = self.any_tensor()
        if kind in UNARY:
            return self.add(kind, self.add("Abs", a) if kind == "Sqrt" else a)
        return getattr(self, kind)(a) if kind in OTHER else self.binary(kind, a, self.any_tensor())

    def binary(self, kind, a, b):
        if kind == "Where":
            return self.add("Where", self.add("Greater", a, b), b, a)
        positive = self.add("Add", self.add("Abs", b), self.number(1.0)) if kind == "Div" else b
        return self.add(kind, a, positive)

    def scaled(self, a):
        return self.add("Mul", a, self.number(self.draw(st.sampled_from(SCALARS))))

    def pair(self, a):
        constants = [self.number(0.25), self.number(0, np.int8)]
        return self.add("DequantizeLinear", self.add("QuantizeLinear", a, *constants), *constants)

    def counted(self, a):
        numbers = self.add("Cast", self.add("Floor", self.add("Tanh", a)), to=TensorProto.INT32)
        return self.add("Cast", numbers, to=TensorProto.FLOAT)

    def summed(self, a):
        return self.add("Add", a, self.add("ReduceSum", a, keepdims=0))

    def shared(self, a):
        weight = self.number(np.eye(SIZE) * self.draw(st.sampled_from(SCALARS)))
        return self.add("Add", self.add("MatMul", a, weight), weight)

    def branch(self, a):
        def body(op_type):
            name = f"{op_type}{len(self.nodes)}"
            output = helper.make_tensor_value_info(name, TensorProto.FLOAT, (SIZE, SIZE))
            return helper.make_graph([helper.make_node(op_type, [a], [name])], op_type, [], [output])

        return self.add("If", "flag", then_branch=body("Relu"), else_branch=body("Neg"))


@st.composite
def graphs(draw):
    """A model of such a graph, with one or two outputs and all types that onnx infers."""
    net = Growing(draw)
    for kind in draw(st.lists(st.sampled_from((*UNARY, *BINARY, *OTHER)), min_size=2, max_size=12)):
        net.names.append(net.grow(kind))
    outputs = dict.fromkeys(name for name in (net.names[-1], net.any_tensor()) if name != "x")
    shapes = dict.fromkeys(outputs, (SIZE, SIZE))
    model = make_model(net.nodes, {"x": (SIZE, SIZE), "flag": ()}, shapes, net.weights, opset=21, ir_version=10)
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.BOOL
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def magnitudes(model, feeds):
    """The largest finite magnitude of every float tensor of the main graph, as ONNX Runtime computes it."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    del exposed.graph.output[:]
    floats = [value for value in (*model.graph.value_info, *model.graph.output) if is_float(value)]
    exposed.graph.output.extend(floats)
    arrays = {"x": feeds["x"], **outputs_of(exposed, feeds)}
    return {((), name): float(np.abs(array[np.isfinite(array)]).max(initial=0)) for name, array in arrays.items()}


def is_float(value):
    return value.type.tensor_type.elem_type == TensorProto.FLOAT


@settings(max_examples=100, deadline=None, derandomize=True)
@given(graphs(), st.booleans())
def test_what_float16_does_not_hold_is_float32(model, flag):
    feeds = {"x": np.random.default_rng(4).standard_normal((SIZE, SIZE)).astype(np.float32), "flag": np.array(flag)}
    measured = magnitudes(model, feeds)
    written, half = in_half(model, measured)
    types = types_of(written)
    too_large = [name for (_, name), largest in measured.items() if largest > 16376]
    assert {types[name] for name in too_large} <= {"FLOAT"}
    assert [value.type for value in written.graph.input] == [value.type for value in model.graph.input]
    assert [value.name for value in written.graph.output] == [value.name for value in model.graph.output]
    assert all(is_float(value) for value in written.graph.output)
    assert all(node.reason for node in half.kept)
    assert half.nodes == 0 or "FLOAT16" in types.values()
    expected = outputs_of(model, feeds)
    with np.errstate(all="ignore"):
        found = dict(zip(expected, ReferenceEvaluator(written).run(list(expected), feeds), strict=True))
    for name, array in expected.items():
        assert outputs_of(written, feeds)[name].dtype == array.dtype
        assert np.isfinite(found[name]).all() or not np.isfinite(array).all()
