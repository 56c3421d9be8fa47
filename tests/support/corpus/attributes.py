"""Attributes of every name and type, on both operators; ranks; nodes in another order; the Attention operator."""

from collections.abc import Iterator, Mapping

import onnx
from onnx import TensorProto as T
from onnx import helper

from support.corpus._case import INT8_ZERO, SCALE, Case, graph_model, node, pair, tensor, type_word

VALUES: Mapping[str, tuple[object, ...]] = {
    "axis": (0, 1.0, [1], "1"),
    "axes": (0,),
    "saturate": (1, 0, 1.0),
    "output_dtype": (T.INT8, T.FLOAT, T.DOUBLE, "int8"),
    "block_size": (0, -1, 2.0),
    "precision": (T.FLOAT, T.FLOAT16, "float"),
    "mode": ("fast",),
}
OPSETS = (21, 23)


def cases() -> Iterator[Case]:
    for opset in OPSETS:
        for name, values in VALUES.items():
            for value in values:
                for index, word in enumerate(("Q", "DQ")):
                    yield Case(f"{word} with {name} = {value!r} at opset {opset}", _with(index, {name: value}, opset))
    for rank in range(11):
        shape = [2] * min(rank, 2) + [1] * max(rank - 2, 0)
        yield Case(f"rank {rank}", _model(pair("x", "y"), shape, 21))
    yield Case("nodes in reverse", _model(pair("x", "y")[::-1], [2, 4], 21))
    for float_type in (T.FLOAT, T.FLOAT16):
        for codes in (None, T.INT8, T.FLOAT8E4M3FN):
            word = "floats" if codes is None else type_word(codes)
            yield Case(f"Attention of {word} in {type_word(float_type)}", _attention(float_type, codes))


def _with(index: int, attributes: dict[str, object], opset: int) -> onnx.ModelProto:
    nodes = pair("x", "y")
    nodes[index].attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    return _model(nodes, [2, 4], opset)


def _model(nodes: list[onnx.NodeProto], shape: list[int], opset: int) -> onnx.ModelProto:
    io = [("x", T.FLOAT, shape)], [("y", T.FLOAT, shape)]
    return graph_model(nodes, *io, [SCALE, INT8_ZERO], opset, 10 if opset < 23 else 11)


def _attention(float_type: int, codes: int | None) -> onnx.ModelProto:
    names = ("a", "b", "c")
    before = [each for name in names if codes is not None for each in pair(name, f"{name}d")]
    nodes = [*before, node("Attention", [f"{name}d" if before else name for name in names], "y")]
    stored = [tensor("s", 0.1, float_type), tensor("z", 0, codes or T.INT8)]
    shape = [1, 2, 16, 64]
    inputs = [(name, float_type, shape) for name in names]
    return graph_model(nodes, inputs, [("y", float_type, shape)], stored, 23, 11)
