"""Damaged models: a fix engine that looks at every constant either fixes, refuses, or ends with one clear error."""

import contextlib
import random

import onnx
import pytest

from qdqtool import rules
from qdqtool.data.request import DataRequest
from qdqtool.errors import QdqError
from qdqtool.graph.model import Model
from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting.policy import Policy

MODELS = 25
POLICY = Policy(targets=("onnx", "ort-cpu", "tensorrt"))
ORIGINALS = [example.model() for rule in rules.catalogue() for example in (*rule.INVALID, *rule.VALID)]


def rewire(graph: onnx.GraphProto, draw: random.Random) -> None:
    node = draw.choice(graph.node)
    if node.input:
        names = [*(tensor.name for tensor in graph.initializer), *(name for each in graph.node for name in each.output)]
        node.input[draw.randrange(len(node.input))] = draw.choice(["", "nowhere", *names])


def reshape(graph: onnx.GraphProto, draw: random.Random) -> None:
    if graph.initializer:
        shape = [draw.choice([0, 1, 2, 3, 5]) for _ in range(draw.randint(0, 3))]
        draw.choice(graph.initializer).dims[:] = shape


def retype(graph: onnx.GraphProto, draw: random.Random) -> None:
    if graph.initializer:
        draw.choice(graph.initializer).data_type = draw.choice([1, 2, 3, 6, 7, 10, 16, 17, 21, 22])


def set_attribute(graph: onnx.GraphProto, draw: random.Random) -> None:
    name = draw.choice(["axis", "block_size", "output_dtype", "to"])
    draw.choice(graph.node).attribute.append(onnx.helper.make_attribute(name, draw.choice([-5, -1, 0, 1, 3, 7, 22])))


def take_out(graph: onnx.GraphProto, draw: random.Random) -> None:
    if len(graph.node) > 1:
        del graph.node[draw.randrange(len(graph.node))]


def repeat(graph: onnx.GraphProto, draw: random.Random) -> None:
    graph.node.add().CopyFrom(draw.choice(graph.node))


@pytest.mark.parametrize("seed", range(4))
def test_no_damage_escapes(seed: int):
    draw = random.Random(seed)
    for _ in range(MODELS):
        model = onnx.ModelProto()
        model.CopyFrom(draw.choice(ORIGINALS))
        for _ in range(draw.randint(1, 3)):
            draw.choice((rewire, reshape, retype, set_attribute, take_out, repeat))(model.graph, draw)
        with contextlib.suppress(QdqError):
            fix_model(Model(model), FixRequest(policy=POLICY, unsafe=True))
        with contextlib.suppress(QdqError):
            normalized_model(Model(model), DataRequest())
