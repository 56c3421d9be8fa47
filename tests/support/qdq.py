"""Hand-made Q/DQ models, written as ONNX text, and their constants in any format."""

import numpy as np
import onnx
from onnx import helper, parser

from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model


def text_model(text: str, *constants: onnx.TensorProto) -> Model:
    """A model from ONNX text, with initializers added (the text form cannot spell 4-bit and fp8 constants)."""
    proto = parser.parse_model(text)
    proto.graph.initializer.extend(constants)
    return Model(proto)


def constant(name: str, values: object, onnx_type: int = onnx.TensorProto.FLOAT) -> onnx.TensorProto:
    """An initializer of any type."""
    return make_tensor(name, np.asarray(values, np.float32), onnx_type)


def pair_model(
    quantized_type: int, *, float_type: int = onnx.TensorProto.FLOAT, scale: float = 0.1, zero_point: int = 0
) -> Model:
    """x -> Q -> DQ -> y, opset 21, per-tensor, shape [n]."""
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quant"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="dequant"),
        ],
        "pair",
        [helper.make_tensor_value_info("x", float_type, ["n"])],
        [helper.make_tensor_value_info("y", float_type, ["n"])],
        [constant("s", scale, float_type), constant("z", zero_point, quantized_type)],
    )
    return Model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


LOOP_AND_BRANCHES = """
<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[3] x, bool c, int64 n) => (float[3] y, float[3] z)
<float s = {0.5}, int8 zp = {0}>
{
  y = If (c) <
    then_branch = t () => (float[3] yt) {
      tq = QuantizeLinear (x, s, zp)
      yt = DequantizeLinear (tq, s, zp)
    },
    else_branch = e () => (float[3] ye) {
      neg = Neg (x)
      eq = QuantizeLinear (neg, s, zp)
      ye = DequantizeLinear (eq, s, zp)
    }
  >
  none = Constant <value = bool {1}> ()
  z = Loop (n, none, x) <
    body = b (int64 i, bool ci, float[3] v) => (bool co, float[3] vo) {
      co = Identity (ci)
      one = Constant <value = float {1.0}> ()
      more = Add (v, one)
      lq = QuantizeLinear (more, s, zp)
      ld = DequantizeLinear (lq, s, zp)
      vo = my.Twice (ld)
    }
  >
}
<domain: "my", opset_import: ["": 21]>
Twice (a) => (b)
{
  fs = Constant <value = float {0.25}> ()
  fz = Constant <value = int8 {1}> ()
  fq = QuantizeLinear (a, fs, fz)
  fd = DequantizeLinear (fq, fs, fz)
  b = Add (fd, fd)
}
"""
"""Q/DQ in both branches of an If, in a Loop, and in a function that the loop calls."""
