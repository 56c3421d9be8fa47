"""Damaged models: whatever is broken in them, validate gives findings or one clear error, and soon."""

import contextlib
import random
from collections.abc import Callable

import onnx
import pytest
from google.protobuf.message import DecodeError

from qdqtool import rules, targets
from qdqtool.errors import QdqError
from qdqtool.graph.model import Model
from qdqtool.pipeline.validate import validate_model

SEEDS = range(20)
MODELS_PER_SEED = 40
ORIGINALS = [
    example.model().SerializeToString() for rule in rules.catalogue() for example in (*rule.VALID, *rule.INVALID)
]
WILD = (-1, 0, 1, 3, 99, -(2**40), 2**40)
OPERATORS = ("QuantizeLinear", "DequantizeLinear", "Conv", "Gemm", "Cast", "Transpose", "If", "Constant", "Identity")
ATTRIBUTES = ("axis", "block_size", "output_dtype", "to", "perm", "transB", "value", "saturate")


def flip_bits(data: bytes, draw: random.Random) -> onnx.ModelProto:
    damaged = bytearray(data)
    for _ in range(draw.randint(1, 6)):
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    return onnx.ModelProto.FromString(bytes(damaged))


def rewire(data: bytes, draw: random.Random) -> onnx.ModelProto:
    model = onnx.ModelProto.FromString(data)
    for _ in range(draw.randint(1, 4)):
        draw.choice(REWIRINGS)(model.graph, draw)
    return model


def _cut_input(graph: onnx.GraphProto, draw: random.Random) -> None:
    node = draw.choice(graph.node)
    if node.input:
        del node.input[draw.randrange(len(node.input))]


def _rename_input(graph: onnx.GraphProto, draw: random.Random) -> None:
    node = draw.choice(graph.node)
    if node.input:
        names = ["", "nowhere", *(output for each in graph.node for output in each.output)]
        node.input[draw.randrange(len(node.input))] = draw.choice(names)


def _rename_output(graph: onnx.GraphProto, draw: random.Random) -> None:
    node = draw.choice(graph.node)
    if node.output:
        node.output[0] = draw.choice(["", *graph.node[0].output, *node.input])


def _add_attribute(graph: onnx.GraphProto, draw: random.Random) -> None:
    kind = draw.choice([each for each in onnx.AttributeProto.AttributeType.values() if each])
    draw.choice(graph.node).attribute.add(name=draw.choice(ATTRIBUTES), type=kind, i=draw.choice(WILD))


def _retype(graph: onnx.GraphProto, draw: random.Random) -> None:
    if graph.initializer:
        draw.choice(graph.initializer).data_type = draw.randint(-1, 40)


def _reshape(graph: onnx.GraphProto, draw: random.Random) -> None:
    if graph.initializer:
        draw.choice(graph.initializer).dims.append(draw.choice(WILD))


def _change_operator(graph: onnx.GraphProto, draw: random.Random) -> None:
    draw.choice(graph.node).op_type = draw.choice(OPERATORS)


REWIRINGS = (_cut_input, _rename_input, _rename_output, _add_attribute, _retype, _reshape, _change_operator)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("damage", [flip_bits, rewire])
def test_a_damaged_model_gives_findings_or_a_clear_error(
    damage: Callable[[bytes, random.Random], onnx.ModelProto], seed: int
):
    draw = random.Random(seed)
    judged = 0
    for _ in range(MODELS_PER_SEED):
        try:
            model = damage(draw.choice(ORIGINALS), draw)
        except DecodeError:
            continue
        with contextlib.suppress(QdqError):
            validate_model(Model(model), targets.names())
        judged += 1

    assert judged
