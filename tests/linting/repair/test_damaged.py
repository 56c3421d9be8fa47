"""Damaged models: a fix engine that looks at every constant either fixes, refuses, or ends with one clear error."""

import contextlib
import random

import onnx
import onnx.parser
import pytest

from qdqtool.errors import QdqError
from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting import rules
from qdqtool.linting.policy import Policy
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

MODELS = 25
POLICY = Policy(targets=("onnx", "ort-cpu", "tensorrt"))
ORIGINALS = [example.model() for rule in rules.catalogue() for example in (*rule.INVALID, *rule.VALID)]

FOREIGN = [
    onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> g (float[2,3,4] x) => (float[2,3,4] y) {body}'
    )
    for body in (
        """<float s = {0.05}, float lo = {-128}, float hi = {127}>
        { a = Div(x, s) b = Round(a) c = Clip(b, lo, hi) y = Mul(c, s) }""",
        """<float i = {20}, float s = {0.05}, float z = {128}, float lo = {0}, float hi = {255}>
        { a = Mul(x, i) b = Round(a) c = Add(b, z) d = Clip(c, lo, hi) e = Sub(d, z) y = Mul(e, s) }""",
        """<float s = {0.05}, int8 z = {0}>
        { q = com.microsoft.QuantizeLinear(x, s, z) y = com.microsoft.DequantizeLinear(q, s, z) }""",
        """<int8[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float z = {3}, float s = {0.3}>
        { a = Cast <to = 1> (w) b = Sub(a, z) c = Mul(b, s) y = Add(x, c) }""",
    )
]


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
    """A model that nothing can be done for may end with an error; most are looked at, and of some a part is fixed."""
    draw = random.Random(seed)
    fixed, normalized = [], []
    for _ in range(MODELS):
        with contextlib.suppress(QdqError):
            fixed.append(fix_model(damaged(ORIGINALS, draw), FixRequest(policy=POLICY, unsafe=True)).report)
        with contextlib.suppress(QdqError):
            normalized.append(normalized_model(damaged(FOREIGN, draw), DataRequest()).report)
    for reports in (fixed, normalized):
        assert len(reports) >= 0.8 * MODELS
        assert any(report.changes for report in reports)
        assert any(report.refused for report in reports)


def damaged(originals: list[onnx.ModelProto], draw: random.Random) -> Model:
    model = onnx.ModelProto()
    model.CopyFrom(draw.choice(originals))
    for _ in range(draw.randint(1, 3)):
        draw.choice((rewire, reshape, retype, set_attribute, take_out, repeat))(model.graph, draw)
    return Model(model)
