"""Graph outputs and inner tensors that are declared with other types than their makers give them."""

from collections.abc import Iterator

import onnx
from onnx import TensorProto as T

from support.corpus._case import SCALE, Case, graph_model, node, pair, tensor, type_word

KINDS = (T.INT8, T.UINT8, T.FLOAT, T.INT32, T.FLOAT16)
MOVES = ("", "Identity", "Transpose", "Relu")


def cases() -> Iterator[Case]:
    for declared in KINDS:
        for zero in (T.INT8, T.UINT8, None):
            for move in ("", "Identity", "Transpose"):
                made = "uint8 by default" if zero is None else type_word(zero)
                name = f"output {type_word(declared)}, Q of {made}{' and ' if move else ''}{move}"
                yield Case(name, _codes(declared, zero, move))
    for declared in (T.FLOAT, T.FLOAT16, T.INT8):
        for scale in (T.FLOAT, T.FLOAT16):
            for move in MOVES:
                name = f"output {type_word(declared)}, DQ of {type_word(scale)}{' and ' if move else ''}{move}"
                yield Case(name, _floats(declared, scale, move))
    for declared in KINDS:
        yield Case(f"codes declared {type_word(declared)} inside", _inside("yd_codes", declared))
        yield Case(f"floats declared {type_word(declared)} inside", _inside("yd", declared))


def _codes(declared: int, zero: int | None, move: str) -> onnx.ModelProto:
    zeros = [] if zero is None else ["z"]
    made = "q" if move else "y"
    nodes = [node("QuantizeLinear", ["x", "s", *zeros], made), *([node(move, ["q"], "y")] if move else [])]
    stored = [SCALE, tensor("z", 0, zero or T.INT8)]
    return graph_model(nodes, [("x", T.FLOAT, [4, 4])], [("y", declared, [4, 4])], stored)


def _floats(declared: int, scale: int, move: str) -> onnx.ModelProto:
    made = "d" if move else "y"
    nodes = [*pair("x", made), *([node(move, ["d"], "y")] if move else [])]
    stored = [tensor("s", 0.1, scale), tensor("z", 0, T.INT8)]
    return graph_model(nodes, [("x", scale, [4, 4])], [("y", declared, [4, 4])], stored)


def _inside(name: str, declared: int) -> onnx.ModelProto:
    nodes = [*pair("x", "yd"), node("Relu", ["yd"], "y")]
    stored = [SCALE, tensor("z", 0, T.INT8)]
    model = graph_model(nodes, [("x", T.FLOAT, [4, 4])], [("y", T.FLOAT, [4, 4])], stored)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info(name, declared, [4, 4]))
    return model
