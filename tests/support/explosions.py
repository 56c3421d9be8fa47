"""Small models that would fill the memory or run for years, and sane models with the same operators beside them."""

import itertools
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IN = "local"
FOREVER = helper.make_node("Identity", ["go"], ["goes"])


def _made(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int | str], functions=(), **stored: object
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(IN, 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=opsets, functions=list(functions))


def _doubled(times: int, axis: int) -> list[onnx.NodeProto]:
    names = ["x", *(f"c{index}" for index in range(times))]
    nodes = [helper.make_node("Concat", [old, old], [new], axis=axis) for old, new in itertools.pairwise(names)]
    return [*nodes, helper.make_node("ReduceMean", [names[-1]], ["y"])]


def concat(times: int, *, axis: int = 1, rows: int | str = 1) -> onnx.ModelProto:
    """A tensor that Concat joins with itself again and again."""
    return _made(_doubled(times, axis), [rows, 4])


def declared_small(times: int) -> onnx.ModelProto:
    """The same with declared shapes that are wrong."""
    model = concat(times)
    model.graph.value_info.extend(
        helper.make_tensor_value_info(f"c{index}", TensorProto.FLOAT, [1, 4]) for index in range(times)
    )
    return model


def in_function(times: int) -> onnx.ModelProto:
    """The same inside a local function."""
    opsets = [helper.make_opsetid("", 21)]
    function = helper.make_function(IN, "Doubled", ["x"], ["y"], _doubled(times, 1), opsets)
    return _made([helper.make_node("Doubled", ["x"], ["y"], domain=IN)], [1, 4], [function])


def _value(name: str, kind: int = TensorProto.FLOAT, shape: Sequence[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def loop(
    trips: int,
    step: Sequence[onnx.NodeProto] = (helper.make_node("Concat", ["a", "a"], ["b"], axis=0),),
    goes: Sequence[onnx.NodeProto] = (FOREVER,),
    *,
    stacks: bool = False,
) -> onnx.ModelProto:
    """A Loop whose body makes ``b`` of ``a``; it may also stack what it makes of ``b``."""
    inputs = [_value("i", TensorProto.INT64, []), _value("go", TensorProto.BOOL, []), _value("a")]
    outputs = [_value("goes", TensorProto.BOOL, []), _value("b"), *([_value("s")] if stacks else [])]
    stacked = [helper.make_node("Neg", ["b"], ["s"])] if stacks else []
    body = helper.make_graph([*step, *goes, *stacked], "body", inputs, outputs)
    nodes = [
        helper.make_node("Identity", ["n"], ["trips"]),
        helper.make_node("Loop", ["trips", "", "x"], ["last", "all"][: 1 + stacks], "grow", body=body),
        helper.make_node("ReduceMean", ["last"], ["y"]),
    ]
    return _made(nodes, [4], n=np.int64(trips))


def nested(trips: int) -> onnx.ModelProto:
    """A Loop in a Loop: each doubles three times in an iteration of the outer one."""
    inputs = [_value("j", TensorProto.INT64, []), _value("in", TensorProto.BOOL, []), _value("p")]
    outputs = [_value("out", TensorProto.BOOL, []), _value("q")]
    nodes = [helper.make_node("Concat", ["p", "p"], ["q"], axis=0), helper.make_node("Identity", ["in"], ["out"])]
    inner = helper.make_graph(nodes, "inner", inputs, outputs)
    three = helper.make_node("Constant", [], ["three"], value_int=3)
    return loop(trips, [three, helper.make_node("Loop", ["three", "", "a"], ["b"], body=inner)])


def functions(levels: int) -> onnx.ModelProto:
    """Local functions of which each calls the next one twice."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(IN, 1)]
    made = []
    for level in range(levels):
        nodes = [helper.make_node(f"F{level + 1}", [a], [b], domain=IN) for a, b in (("x", "m"), ("m", "y"))]
        if level == levels - 1:
            nodes = [helper.make_node("Relu", ["x"], ["y"])]
        made.append(helper.make_function(IN, f"F{level}", ["x"], ["y"], nodes, opsets))
    return _made([helper.make_node("F0", ["x"], ["y"], domain=IN)], [1, 4], made)


def named(length: int) -> onnx.ModelProto:
    """A tensor with a long name."""
    name = "n" * length
    return _made([helper.make_node("Relu", ["x"], [name]), helper.make_node("Relu", [name], ["y"])], [1, 4])


def expanded(extent: int) -> onnx.ModelProto:
    """A tensor of one column that becomes so many rows."""
    nodes = [helper.make_node("Expand", ["x", "s"], ["e"]), helper.make_node("ReduceMean", ["e"], ["y"])]
    return _made(nodes, [1, 4], s=np.int64([extent, 4]))
