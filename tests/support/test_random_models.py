"""The strategies of random models: every model is valid and runs, and everything that they promise occurs."""

from collections.abc import Iterator

import onnx
import pytest
from hypothesis import given
from onnx import TensorProto

from qdqtool.models.graph.model import Model
from support.ort_verdict import ort_outputs
from support.random_models import brute, drawn_feeds, float_models, quantized_models, tried_on
from support.random_models.models import OPSETS

OPERATORS = (
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Clip",
    "Concat",
    "Constant",
    "Conv",
    "ConvTranspose",
    "Flatten",
    "Gather",
    "Gemm",
    "If",
    "LayerNormalization",
    "MatMul",
    "MaxPool",
    "Mul",
    "Pad",
    "ReduceMean",
    "Relu",
    "Reshape",
    "Resize",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Split",
    "Transpose",
)

KINDS = frozenset(
    {
        "DQ makes an output",
        "DQ without Q",
        "Q has several DQs",
        "blocked",
        "codes are an output",
        "codes moved",
        "fp8",
        "in a body",
        "int4",
        "no zero point",
        "nonzero",
        "pair behind pair",
        "per axis",
        "scale computed",
        "scale is an input",
        "scale of scales",
        "shared scale",
        "zero point folded",
    }
)


@pytest.mark.slow(reason="runs many random models")
def test_float_models_run_and_all_layers_opsets_and_types_occur():
    seen = set[object]()

    @tried_on(200)
    @given(float_models())
    def draw(model):
        assert_runs(model)
        assert not brute.counts(model.proto).keys() & {brute.QUANTIZE, brute.DEQUANTIZE}
        seen.update(features(model.proto))

    draw()
    assert len([name for name in OPERATORS if name not in seen]) < 4
    assert len(seen.intersection(OPSETS)) > 7
    assert seen >= {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}
    assert seen >= {"dynamic", "static", "shared weight", "several outputs", "groups", "inner tensor returned"}


@pytest.mark.slow(reason="runs many random models")
def test_quantized_models_run_and_all_kinds_of_quantization_occur():
    seen = set[str]()

    @tried_on(200)
    @given(quantized_models())
    def draw(model):
        assert_runs(model)
        seen.update(quantization(model.proto))

    draw()
    assert sorted(KINDS - seen) == []


def assert_runs(model: Model) -> None:
    onnx.checker.check_model(model.proto, full_check=True)
    assert ort_outputs(model.proto, drawn_feeds(model)).keys() == {each.name for each in model.proto.graph.output}


def features(proto: onnx.ModelProto) -> Iterator[object]:
    """What is in a float model: operators, opset, element types, and some words."""
    yield from brute.counts(proto)
    yield proto.opset_import[0].version
    yield from brute.elem_types(proto).values()
    yield "dynamic" if any(dim.dim_param for info in proto.graph.input for dim in brute.dims(info)) else "static"
    readers, returned = brute.readers(proto), brute.returned(proto)
    if any(len(readers.get(name, ())) > 1 for name, array in brute.constants(proto).items() if array.ndim > 1):
        yield "shared weight"
    if len(proto.graph.output) > 1:
        yield "several outputs"
    if any(brute.attribute(node, "group") > 1 for node in brute.all_nodes(proto)):
        yield "groups"
    if any(name in readers for name in returned):
        yield "inner tensor returned"


def quantization(proto: onnx.ModelProto) -> Iterator[str]:
    """The kinds of Q/DQ in a model, in words."""
    made_by, readers, stored = brute.producers(proto), brute.readers(proto), brute.constants(proto)
    returned, types = brute.returned(proto), brute.elem_types(proto)
    main = {id(node) for node in proto.graph.node}
    words = {TensorProto.FLOAT8E4M3FN: "fp8", TensorProto.INT4: "int4"}
    for node in brute.all_nodes(proto):
        if node.op_type not in {brute.QUANTIZE, brute.DEQUANTIZE}:
            continue
        is_q, source = node.op_type == brute.QUANTIZE, made_by.get(node.input[0])
        maker, zero = made_by.get(node.input[1]), node.input[2] if len(node.input) > 2 else ""
        code_type = types.get(node.output[0] if is_q else node.input[0], 0)
        scale = stored.get(node.input[1])
        told = {
            words.get(code_type, ""): True,
            "blocked": brute.attribute(node, "block_size") > 0,
            "per axis": scale is not None and scale.ndim == 1 and scale.size > 1,
            "shared scale": is_q and sum(each.op_type == node.op_type for each in readers[node.input[1]]) > 1,
            "no zero point": not zero,
            "nonzero": zero in stored and bool(stored[zero].astype(float).any()),
            "zero point folded": zero in made_by and made_by[zero].op_type != "Constant",
            "scale computed": maker is not None and maker.op_type == "Add",
            "scale of scales": maker is not None and maker.op_type == brute.DEQUANTIZE,
            "scale is an input": any(info.name == node.input[1] for info in proto.graph.input),
            "in a body": id(node) not in main,
            "codes are an output": is_q and node.output[0] in returned,
            "codes moved": not is_q and source is not None and source.op_type == "Transpose",
            "DQ makes an output": not is_q and node.output[0] in returned,
            "DQ without Q": not is_q and (source is None or source.op_type == "Constant"),
            "Q has several DQs": is_q and len(readers.get(node.output[0], ())) > 1,
            "pair behind pair": is_q and source is not None and source.op_type == brute.DEQUANTIZE,
        }
        yield from (word for word, is_so in told.items() if is_so)
