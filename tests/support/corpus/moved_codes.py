"""Codes that operators move, join and choose between a Q and its DQ, or between an input or constant and a DQ."""

from collections.abc import Iterator

import onnx
from onnx import TensorProto as T

from support.corpus._case import Case, type_word

MOVES = {
    "nothing": "m = Identity (q)",
    "Concat": "m = Concat <axis = 1> (q, p)",
    "Concat with a constant": "m = Concat <axis = 1> (q, k)",
    "Concat with an input": "m = Concat <axis = 1> (q, c)",
    "MaxPool": "m = MaxPool <kernel_shape = [2,2]> (q)",
    "Transpose": "m = Transpose <perm = [0,2,3,1]> (q)",
    "Transpose twice": "t = Transpose (q) m = Transpose (t)",
    "Reshape": "m = Reshape (q, n)",
    "Flatten": "m = Flatten (q)",
    "Slice": "m = Slice (q, zero, one, one)",
    "Gather": "m = Gather (q, zero)",
    "Split": "m, rest = Split <axis = 1, num_outputs = 2> (q)",
    "Squeeze": "m = Squeeze (q, zero)",
    "Expand": "m = Expand (q, n4)",
    "Where": "m = Where (b, q, p)",
    "Relu": "m = Relu (q)",
    "Cast and back": "f = Cast <to = 1> (q) m = Cast <to = CODES> (f)",
    "an input": "m = Transpose (c)",
    "a constant": "m = Transpose (k)",
    "If": (
        "m = If (b0) <then_branch = t () => (WORD[1,2,2,2] u) { u = Identity (q) }, "
        "else_branch = e () => (WORD[1,2,2,2] v) { v = Identity (p) }>"
    ),
}
INPUTS = "float[1,2,2,2] x, float[1,2,2,2] x2, bool[1,2,2,2] b, bool b0"


def cases() -> Iterator[Case]:
    for kind in (T.UINT8, T.INT8):
        for name, move in MOVES.items():
            yield Case(f"{type_word(kind)} through {name}", _model(kind, move))


def _model(kind: int, move: str) -> onnx.ModelProto:
    word = type_word(kind)
    move = move.replace("CODES", str(kind)).replace("WORD", word)
    stored = [
        "float s = {0.1}",
        f"{word} z = {{0}}",
        "int64[2] n = {4,2}",
        "int64[4] n4 = {1,2,2,2}",
        "int64[1] zero = {0}",
        "int64[1] one = {1}",
        *([f"{word}[1,2,2,2] k = {{1,2,3,4,1,2,3,4}}"] if "k)" in move else []),
    ]
    inputs = f"{INPUTS}, {word}[1,2,2,2] c" if "c)" in move else INPUTS
    body = f"q = QuantizeLinear (x, s, z) p = QuantizeLinear (x2, s, z) {move} y = DequantizeLinear (m, s, z)"
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => (float[1] y) <{", ".join(stored)}> {{ {body} }}'
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model
