"""Nodes, constants and calls that share a name: pairs of operators in one graph, in branches, loops and functions."""

from collections.abc import Iterator

import onnx

from support.corpus._case import Case

HEADER = '<ir_version: 10, opset_import: ["": 21, "my": 1]>\n'
STORED = (
    "float s = {0.1}, int8 z = {0}, float k = {1}, float[4,4] w = {1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4}, int64[2] n = {1,4}"
)
NODES = {
    "Q": ("QuantizeLinear (IN, s, z)", "DequantizeLinear (OUT, s, z)"),
    "Relu": ("Relu (IN)", "Identity (OUT)"),
    "Identity": ("Identity (IN)", "Identity (OUT)"),
    "MatMul": ("MatMul (IN, w)", "Identity (OUT)"),
    "Reshape": ("Reshape (IN, n)", "Identity (OUT)"),
    "Dropout": ("Dropout (IN)", "Identity (OUT)"),
    "Constant": ("Constant <value = float {2}> ()", "Add (IN, OUT)"),
}
"""The named operator, and what makes a float tensor of the shape of x from it."""

READS = {
    "s": "q = QuantizeLinear (x, s, z)",
    "z": "q = QuantizeLinear (x, s, z)",
    "k": "r = Add (x, k) [k] q = QuantizeLinear (r, s, z)",
    "k later": "[k] q = QuantizeLinear (x, s, z)",
    "w": "r = MatMul (x, w) [w] q = QuantizeLinear (r, s, z)",
    "n": "r = Reshape (x, n) [n] q = QuantizeLinear (r, s, z)",
}
PAIR = "[a] q = QuantizeLinear (x, s, z) [b] y = DequantizeLinear (q, s, z)"
UNNAMED = "q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z)"


def cases() -> Iterator[Case]:
    for first, one in NODES.items():
        for second, other in NODES.items():
            for named in ("same", "other"):
                yield Case(f"{first} and {second} of {named} name", _two(one, other, "a" if named == "same" else "b"))
    for constant, text in READS.items():
        body = text if "[" in text else f"[{constant}] {text}"
        yield Case(
            f"Q named as the constant {constant}", _model(f"{body} d = DequantizeLinear (q, s, z) y = Add (d, k)")
        )
    for name, text in _BODIES.items():
        yield Case(name, _model(text))
    for name, main, body in _FUNCTIONS:
        yield Case(name, _model(main, f'<domain: "my", opset_import: ["": 21]> F (x) => (y) {{ {body} }}'))


def _two(one: tuple[str, str], other: tuple[str, str], name: str) -> onnx.ModelProto:
    lines = []
    for number, (label, (made, after)) in enumerate((("a", one), (name, other))):
        data = "x" if number == 0 else "m0"
        lines.append(f"[{label}] t{number} = {made.replace('IN', data)}")
        lines.append(f"m{number} = {after.replace('IN', data).replace('OUT', f't{number}')}")
    return _model(" ".join([*lines, "y = Neg (m1)"]))


def _model(body: str, function: str = "") -> onnx.ModelProto:
    read = ", ".join(each for each in STORED.split(", ") if each)
    return onnx.parser.parse_model(f"{HEADER}g (float[1,4] x) => (float[1,4] y) <{read}> {{ {body} }} {function}")


_CHOICE = "big = ReduceMax <keepdims = 0> (x) c = Greater (big, s)"
_FIXED = "c = Constant <value = bool {0}> ()"
_THEN = "<then_branch = t () => (float[1,4] u) { THEN }, else_branch = e () => (float[1,4] v) { ELSE }>"
_Q1 = "[a] q1 = QuantizeLinear (x, s, z) u = DequantizeLinear (q1, s, z)"
_Q2 = "[a] q2 = QuantizeLinear (x, s, z) v = DequantizeLinear (q2, s, z)"


def _if(condition: str, then: str, other: str, before: str = "", after: str = "y = Identity (w0)") -> str:
    return f"{before} {condition} w0 = If (c) {_THEN.replace('THEN', then).replace('ELSE', other)} {after}"


_MAIN_Q = "[a] q0 = QuantizeLinear (x, s, z) d0 = DequantizeLinear (q0, s, z)"
_BODIES = {
    "both branches, chosen at run time": _if(_CHOICE, _Q1, _Q2),
    "both branches, one of them dead": _if(_FIXED, _Q1, _Q2),
    "main graph and a branch": _if(_CHOICE, _Q1, "v = Relu (x)", before=_MAIN_Q),
    "main graph and a dead branch": _if(_FIXED, _Q1, "v = Relu (x)", before=_MAIN_Q),
    "a branch and behind it": _if(
        _CHOICE, _Q1, "v = Relu (x)", after="[a] q0 = QuantizeLinear (w0, s, z) y = DequantizeLinear (q0, s, z)"
    ),
    "Relu in a branch, Q in the other": _if(_CHOICE, "[a] u = Relu (x)", _Q2),
    "Q in a branch, Relu in the other": _if(_CHOICE, _Q1, "[a] v = Relu (x)"),
    "main graph and a loop": (
        f"{_MAIN_Q} trips = Constant <value = int64 {{3}}> () go = Constant <value = bool {{1}}> () "
        "y = Loop (trips, go, d0) <body = b (int64 i, bool ci, float[1,4] v) => (bool co, float[1,4] w1) "
        "{ co = Identity (ci) [a] q1 = QuantizeLinear (v, s, z) w1 = DequantizeLinear (q1, s, z) }>"
    ),
    "named as another layer": "[node_of_q] r = Relu (x) q = QuantizeLinear (r, s, z) y = DequantizeLinear (q, s, z)",
}
_SCALE = "s = Constant <value = float {0.1}> () z = Constant <value = int8 {0}> ()"
_FUNCTIONS = (
    ("a function with named nodes, called once", "y = my.F (x)", f"{_SCALE} {PAIR}"),
    ("a function with named nodes, called twice", "r = my.F (x) y = my.F (r)", f"{_SCALE} {PAIR}"),
    ("a function without names, called once", "y = my.F (x)", f"{_SCALE} {UNNAMED}"),
    ("a function without names, called twice", "r = my.F (x) y = my.F (r)", f"{_SCALE} {UNNAMED}"),
    ("a function without names, named calls", "[f1] r = my.F (x) [f2] y = my.F (r)", f"{_SCALE} {UNNAMED}"),
    ("a function without Q, called twice", "r = my.F (x) y = my.F (r)", "[a] y = Relu (x)"),
    (
        "a function whose tensors are called as those of the graph",
        "r = my.F (x) q = QuantizeLinear (r, s, z) y = DequantizeLinear (q, s, z)",
        f"{_SCALE} {UNNAMED}",
    ),
)
