"""Layers of every type for every GPU that the compiler can be asked for."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto as T

from support.corpus._case import Case, graph_model, node, pair, tensor, type_word

GPUS = (75, 80, 86, 89, 120, 121)
FLOATS = (T.FLOAT, T.FLOAT16, T.BFLOAT16)
CODES = (None, T.INT8, T.FLOAT8E4M3FN, T.INT4, T.FLOAT4E2M1)
WHOLE_LAYERS = ("MatMul", "Gemm", "Conv", "ConvTranspose")
SIDE = 64


def cases() -> Iterator[Case]:
    for gpu in GPUS:
        for float_type in FLOATS:
            for codes in CODES:
                if codes is None and float_type == T.BFLOAT16:
                    continue  # ONNX Runtime lacks it for reasons that have nothing to do with Q/DQ
                word = "float" if codes is None else type_word(codes)
                for kind, model in _models(float_type, codes):
                    yield Case(f"{kind} of {word} in {type_word(float_type)} on {gpu}", model, (gpu,))


def _models(float_type: int, codes: int | None) -> Iterator[tuple[str, onnx.ModelProto]]:
    if codes is not None:
        yield "a pair", _model(pair("x", "y"), float_type, codes, [8, SIDE])
        scales = tensor("sb", np.full((2, SIDE), 0.1), float_type)
        alone = [node("DequantizeLinear", ["w", "sb"], "wd", axis=0, block_size=32), node("MatMul", ["x", "wd"], "y")]
        yield "a weight in blocks", _model(alone, float_type, codes, [8, SIDE], scales)
    if codes in {T.INT4, T.FLOAT4E2M1}:
        return  # that both operands may not be narrow is another group's theme
    for op_type in WHOLE_LAYERS:
        data = [8, SIDE] if op_type in {"MatMul", "Gemm"} else [1, SIDE, 8, 8]
        before = [*pair("x", "xd"), node("DequantizeLinear", ["w", "s"], "wd")] if codes is not None else []
        read = ["xd", "wd"] if before else ["x", "wf"]
        yield op_type, _model([*before, node(op_type, read, "y")], float_type, codes or T.INT8, data)


def _model(
    nodes: list[onnx.NodeProto], float_type: int, codes: int, data: list[int], *more: onnx.TensorProto
) -> onnx.ModelProto:
    ones = np.ones((SIDE, SIDE) if len(data) == 2 else (SIDE, SIDE, 1, 1))
    stored = [tensor("s", 0.1, float_type), tensor("z", 0, codes), tensor("w", ones, codes), *more]
    stored.append(tensor("wf", ones, float_type))
    return graph_model(nodes, [("x", float_type, data)], [("y", float_type, None)], stored, 23, 11)
