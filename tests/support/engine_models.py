"""Small Q/DQ networks with names that engine tests look for: every node is called ``<output>.<operator>``."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INT8, INT4, FP8, FP4 = TensorProto.INT8, TensorProto.INT4, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT4E2M1
FOUR_BIT = {INT4, FP4}
IMAGE = {"x": (1, 16, 8, 8)}
ROWS = {"x": (8, 64)}


class Net:
    """A network under construction; tensors are float32 unless quantized."""

    def __init__(self, opset=21):
        self.opset = opset
        self.nodes = []
        self.initializers = []
        self._rng = np.random.default_rng(5)

    def op(self, op_type, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op_type, inputs, [output], f"{output}.{op_type}", **attributes))
        return output

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def codes(self, name, shape, kind=INT8):
        count = int(np.prod(shape))
        size = (count + 1) // 2 if kind in FOUR_BIT else count
        data = self._rng.integers(0, 64, size).astype(np.uint8).tobytes()
        self.initializers.append(helper.make_tensor(name, kind, shape, data, raw=True))
        return name

    def scale(self, name, shape=()):
        return self.constant(name, (self._rng.random(shape) * 0.01 + 0.002).astype(np.float32))

    def activation(self, tensor, kind=INT8, axis=None, length=None):
        """A Q/DQ pair on ``tensor``; returns the dequantized tensor."""
        shape = () if axis is None else (length,)
        scale, zero = self.scale(f"{tensor}_s", shape), f"{tensor}_z"
        self.initializers.append(helper.make_tensor(zero, kind, shape, bytes(1 if axis is None else length), raw=True))
        attributes = {} if axis is None else {"axis": axis}
        self.op("QuantizeLinear", [tensor, scale, zero], f"{tensor}_q", **attributes)
        return self.op("DequantizeLinear", [f"{tensor}_q", scale, zero], f"{tensor}_d", **attributes)

    def weight(self, name, shape, kind=INT8, axis=None, block=None):
        """A quantized constant with its DQ; returns the dequantized tensor."""
        scale_shape = () if axis is None else (shape[axis],)
        attributes = {} if axis is None else {"axis": axis}
        if block is not None:
            scale_shape = tuple(-(-size // block) if i == axis else size for i, size in enumerate(shape))
            attributes["block_size"] = block
        inputs = [self.codes(name, shape, kind), self.scale(f"{name}_s", scale_shape)]
        return self.op("DequantizeLinear", inputs, f"{name}_d", **attributes)

    def float_weight(self, name, shape):
        return self.constant(name, self._rng.normal(size=shape).astype(np.float32))

    def model(self, inputs, output="y", output_type=TensorProto.FLOAT):
        graph = helper.make_graph(
            self.nodes,
            "graph",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(output, output_type, None)],
            self.initializers,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def conv(*, op_type="Conv", axis=0, kind=INT8, quantize_x=True, quantize_w=True, x_axis=None, inputs=None):
    """x -> Q/DQ -> Conv with a quantized weight -> y."""
    net = Net()
    x = net.activation("x", kind, x_axis, 16) if quantize_x else "x"
    w = net.weight("w", (16, 16, 3, 3), kind, axis) if quantize_w else net.float_weight("w", (16, 16, 3, 3))
    net.op(op_type, [x, w], "y")
    return net.model(inputs or IMAGE)


def matmul(*, op_type="MatMul", axis=1, block=None, kind=INT8, x_kind=INT8, w=True, opset=21, **attributes):
    """x -> Q/DQ (unless ``x_kind`` is None) -> MatMul or Gemm with a quantized (``w``) or float weight -> y."""
    net = Net(opset)
    x = net.activation("x", x_kind) if x_kind is not None else "x"
    shape = (32, 64) if attributes.get("transB") else (64, 32)
    weight = net.weight("w", shape, kind, axis, block) if w else net.float_weight("w", shape)
    net.op(op_type, [x, weight], "y", **attributes)
    return net.model(ROWS)


def mixed_axes(names=True):
    """Three quantized nodes, of which the first Conv has its weight scales on the wrong axis, and one float Conv."""
    net = Net()
    net.op("Conv", [net.activation("x"), net.weight("w1", (16, 16, 3, 3), axis=1)], "a", pads=[1] * 4)
    net.op("Relu", ["a"], "r")
    net.op("Conv", [net.activation("r"), net.weight("w2", (16, 16, 3, 3), axis=0)], "b", pads=[1] * 4)
    net.op("Conv", ["b", net.float_weight("w3", (16, 16, 1, 1))], "c")
    net.op("GlobalAveragePool", ["c"], "p")
    net.op("Flatten", ["p"], "f")
    net.op("MatMul", [net.activation("f"), net.weight("w4", (16, 10), axis=1)], "y")
    if not names:
        for node in net.nodes:
            node.name = ""
    return net.model(IMAGE)


def squeeze_excite(kind=INT8, quantize_last=True):
    """A block whose last Conv, of 4 input channels, RTX puts into one generated kernel with the Q in front of it."""
    net = Net()
    net.op("Conv", [net.activation("x", kind), net.weight("w1", (96, 16, 3, 3), kind, 0)], "a", pads=[1] * 4)
    net.op("Relu", ["a"], "r")
    net.op("GlobalAveragePool", ["r"], "p")
    net.op("Conv", [net.activation("p", kind), net.weight("w2", (4, 96, 1, 1), kind, 0)], "b")
    net.op("Relu", ["b"], "t")
    net.op("Conv", [net.activation("t", kind) if quantize_last else "t", net.weight("w3", (96, 4, 1, 1), kind, 0)], "c")
    net.op("Sigmoid", ["c"], "g")
    net.op("Mul", ["r", "g"], "y")
    return net.model({"x": (1, 16, 24, 24)})


def float_copy():
    """A tensor that a Conv reads quantized, behind a MaxPool, and an Add in float: RTX writes it in both types."""
    net = Net()
    net.op("Conv", [net.activation("x"), net.weight("w1", (16, 16, 3, 3), axis=0)], "a", pads=[1] * 4)
    net.op("Relu", ["a"], "r")
    net.op("MaxPool", ["r"], "p", kernel_shape=[3, 3], pads=[1] * 4)
    net.op("Conv", [net.activation("p"), net.weight("w2", (16, 16, 3, 3), axis=0)], "b", pads=[1] * 4)
    net.op("Add", ["b", "r"], "y")
    return net.model(IMAGE)


def crashing():
    """Per-tensor fp4 x fp4 MatMul: the builder of TensorRT for RTX 1.7 dies with SIGSEGV."""
    return matmul(kind=FP4, x_kind=FP4, axis=None, opset=23)


def recursive():
    """A local function that calls itself: the parser of TensorRT for RTX 1.7 dies with SIGSEGV."""
    call = helper.make_node("again", ["a"], ["b"], domain="local")
    function = helper.make_function("local", "again", ["a"], ["b"], [call], [helper.make_opsetid("local", 1)])
    model = Net().model({"x": (2, 4)})
    model.graph.node.append(helper.make_node("again", ["x"], ["y"], "call", domain="local"))
    model.graph.output[0].type.tensor_type.shape.dim.add(dim_value=2)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


def branches():
    """An If whose branches each hold a quantized MatMul with a weight of its own."""
    outer = Net()
    bodies = []
    for name in ("then", "else"):
        net = Net()
        y = f"{name}_y"
        net.op("MatMul", [net.activation("x"), net.weight(f"{name}_w", (64, 32), axis=1)], y)
        for node in net.nodes:
            node.name = f"{name}.{node.name}" if name == "then" else ""
        outer.initializers += net.initializers if name == "then" else net.initializers[2:]
        _rename_inner(net.nodes, name)
        bodies.append(helper.make_graph(net.nodes, name, [], [helper.make_tensor_value_info(y, 1, None)]))
    outer.op("If", ["flag"], "y", then_branch=bodies[0], else_branch=bodies[1])
    model = outer.model(ROWS)
    model.graph.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, (8, 32)))
    return model


def _rename_inner(nodes, prefix):
    inner = {output for node in nodes for output in node.output if not output.startswith(prefix)}
    for node in nodes:
        node.input[:] = [f"{prefix}_{name}" if name in inner else name for name in node.input]
        node.output[:] = [f"{prefix}_{name}" if name in inner else name for name in node.output]


def in_a_function():
    """A quantized MatMul in a local function that the main graph calls once."""
    net = Net()
    net.op("MatMul", [net.activation("a"), net.weight("w", (64, 32), axis=1)], "b")
    arguments = ["a", *(tensor.name for tensor in net.initializers)]
    imports = [helper.make_opsetid("", 21)]
    function = helper.make_function("local", "layer", arguments, ["b"], net.nodes, imports)
    main = Net()
    main.initializers = net.initializers
    main.nodes = [helper.make_node("layer", ["x", *arguments[1:]], ["y"], "call", domain="local")]
    model = main.model(ROWS)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


def refused():
    """Four nodes that the parser refuses: int32 bias DQ, a non-zero zero point on both sides, an unknown operator."""
    net = Net()
    net.initializers.append(helper.make_tensor("bias", TensorProto.INT32, [16], bytes(64), raw=True))
    net.op("DequantizeLinear", ["bias", net.scale("bias_s")], "bias_d")
    net.op("Conv", [net.activation("x"), net.weight("w", (16, 16, 3, 3), axis=0), "bias_d"], "c")
    net.constant("five", np.int8(5))
    net.op("QuantizeLinear", ["c", "x_s", "five"], "c_q")
    net.op("DequantizeLinear", ["c_q", "x_s", "five"], "c_d")
    net.nodes.append(helper.make_node("Unheard", ["c_d"], ["u"], "unheard", domain="nowhere"))
    net.op("Relu", ["u"], "y")
    model = net.model(IMAGE)
    model.opset_import.append(helper.make_opsetid("nowhere", 1))
    return model


def save(model, folder, name="m.onnx"):
    path = folder / name
    onnx.save(model, path)
    return path
