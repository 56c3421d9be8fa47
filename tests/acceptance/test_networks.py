"""Small networks of every kind that once went wrong between the float file and the engine, without torch.

`make zoo` does the same with networks from PyTorch (``docs/developers/networks.md``).
Inputs that are values, with their option, are
in ``tests/accuracy/checking/test_check_values.py``, the Attention operator in
``tests/quantization/planning/placement/test_attention.py``.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from benchmarks.networks import page
from benchmarks.networks.chain import Chain
from benchmarks.networks.row import Row

HEADER = '<ir_version: 8, opset_import: ["": 17]> '


@dataclass(frozen=True)
class Network:
    """A network in ONNX's text format, the shapes of its weights, and those of its inputs in a run.

    ``vectors`` are constants with these values.
    """

    text: str
    weights: dict[str, tuple[int, ...]]
    inputs: dict[str, tuple[int, ...]]
    vectors: dict[str, object]

    def model(self) -> onnx.ModelProto:
        model, random = parser.parse_model(HEADER + self.text), np.random.default_rng(11)
        for name, shape in self.weights.items():
            fan = max(int(np.prod(shape[1:])), 1)
            array = (random.normal(size=shape) / np.sqrt(fan)).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        for name, value in self.vectors.items():
            model.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
        return model


WEIGHT_NORM = Network(
    """tcn (float[1,16,64] x) => (float[1,64,60] y) {
        n1 = ReduceL2 <axes = [1, 2]> (v1)  d1 = Div (v1, n1)  w1 = Mul (d1, g1)
        c1 = Conv (x, w1)  r1 = Relu (c1)
        n2 = ReduceL2 <axes = [1, 2]> (v2)  d2 = Div (v2, n2)  w2 = Mul (d2, g2)
        y = Conv (r1, w2)
    }""",
    {"v1": (64, 16, 3), "g1": (64, 1, 1), "v2": (64, 64, 3), "g2": (64, 1, 1)},
    {"x": (1, 16, 64)},
    {},
)

RESIDUAL = Network(
    """block (float[1,16,H,W] x) => (float[1,16,H,W] y) {
        c0 = Conv <pads = [1,1,1,1]> (x, w0)  r0 = Relu (c0)
        c1 = Conv <pads = [1,1,1,1]> (r0, w1)  r1 = Relu (c1)
        c2 = Conv <pads = [1,1,1,1]> (r1, w2)  a = Add (c2, r0)  y = Relu (a)
    }""",
    {"w0": (16, 16, 3, 3), "w1": (16, 16, 3, 3), "w2": (16, 16, 3, 3)},
    {"x": (1, 16, 12, 10)},
    {},
)

_HEAD = """classifier (float[1,16,8,8] x) => (float[1,32] y) {
        c1 = Conv <pads = [1,1,1,1]> (x, w1)  r1 = Relu (c1)
        c2 = Conv <pads = [1,1,1,1]> (r1, w2)  r2 = Relu (c2)
        POOL
        y = Gemm <transB = 1> (f, w3)
    }"""
_HEAD_WEIGHTS = {"w1": (32, 16, 3, 3), "w2": (64, 32, 3, 3), "w3": (32, 64)}
POOLED = Network(
    _HEAD.replace("POOL", "p = GlobalAveragePool (r2)  f = Flatten (p)"), _HEAD_WEIGHTS, {"x": (1, 16, 8, 8)}, {}
)
REDUCED = Network(
    _HEAD.replace("POOL", "p = ReduceMean <axes = [2, 3], keepdims = 0> (r2)  f = Reshape (p, s)"),
    _HEAD_WEIGHTS,
    {"x": (1, 16, 8, 8)},
    {"s": np.array([1, 64])},
)

SQUEEZE = Network(
    """excite (float[1,32,16,16] x) => (float[1,32,16,16] y) {
        e = Conv (x, w1)  er = Relu (e)
        p = GlobalAveragePool (er)  s = Conv (p, w2)  sr = Relu (s)  u = Conv (sr, w3)  g = Sigmoid (u)
        m = Mul (er, g)  o = Conv (m, w4)  y = Add (o, x)
    }""",
    {"w1": (96, 32, 1, 1), "w2": (4, 96, 1, 1), "w3": (96, 4, 1, 1), "w4": (32, 96, 1, 1)},
    {"x": (1, 32, 16, 16)},
    {},
)

DECODER = Network(
    """decoder (int64[1,4] ids, float[1,2,P,32] k0, float[1,2,P,32] v0)
        => (float[1,4,256] logits, float[1,2,T,32] k1, float[1,2,T,32] v1) {
        h = Gather (table, ids)
        n = LayerNormalization (h, gain)
        q = MatMul (n, wq)  qs = Reshape (q, four)  qt = Transpose <perm = [0,2,1,3]> (qs)
        k = MatMul (n, wk)  ks = Reshape (k, two)  kt = Transpose <perm = [0,2,1,3]> (ks)
        v = MatMul (n, wv)  vs = Reshape (v, two)  vt = Transpose <perm = [0,2,1,3]> (vs)
        low, high = Split <axis = 3> (kt)  minus = Neg (high)  turned = Concat <axis = 3> (minus, low)
        kc = Mul (kt, cos)  kn = Mul (turned, sin)  kr = Add (kc, kn)
        k1 = Concat <axis = 2> (k0, kr)  v1 = Concat <axis = 2> (v0, vt)
        ku = Unsqueeze (k1, second)  ke = Tile (ku, twice)  kg = Reshape (ke, groups)
        vu = Unsqueeze (v1, second)  ve = Tile (vu, twice)  vg = Reshape (ve, groups)
        kk = Transpose <perm = [0,1,3,2]> (kg)
        s = MatMul (qt, kk)  sm = Mul (s, root)  p = Softmax <axis = -1> (sm)  o = MatMul (p, vg)
        ot = Transpose <perm = [0,2,1,3]> (o)  os = Reshape (ot, joined)  a = MatMul (os, wo)  r = Add (h, a)
        n2 = LayerNormalization (r, gain)
        gate = MatMul (n2, wg)  sig = Sigmoid (gate)  silu = Mul (gate, sig)  up = MatMul (n2, wu)
        mixed = Mul (silu, up)  down = MatMul (mixed, wd)  last = Add (r, down)
        tied = Transpose <perm = [1,0]> (table)  logits = MatMul (last, tied)
    }""",
    {
        "table": (256, 128),
        "wq": (128, 128),
        "wk": (128, 64),
        "wv": (128, 64),
        "wo": (128, 128),
        "wg": (128, 256),
        "wu": (128, 256),
        "wd": (256, 128),
    },
    {"k0": (1, 2, 6, 32), "v0": (1, 2, 6, 32)},
    {
        "gain": np.ones(128, np.float32),
        "cos": np.cos(np.arange(4 * 32) / 32).reshape(4, 32).astype(np.float32),
        "sin": np.sin(np.arange(4 * 32) / 32).reshape(4, 32).astype(np.float32),
        "root": np.float32(32**-0.5),
        "four": [1, 4, 4, 32],
        "two": [1, 4, 2, 32],
        "second": [2],
        "twice": [1, 1, 2, 1, 1],
        "groups": [1, 4, -1, 32],
        "joined": [1, 4, 128],
    },
)

EXPERTS = Network(
    """experts (float[1,8,64] x) => (float[1,8,64] y) {
        r = MatMul (x, router)  share = Softmax <axis = -1> (r)
        u = Einsum <equation = "bsd,edf->besf"> (x, up)  h = Relu (u)
        o = Einsum <equation = "besf,efd->besd"> (h, down)
        t = Transpose <perm = [0,2,1]> (share)  w = Unsqueeze (t, last)  m = Mul (o, w)
        y = ReduceSum <keepdims = 0> (m, second)
    }""",
    {"router": (64, 16), "up": (16, 64, 32), "down": (16, 32, 64)},
    {"x": (1, 8, 64)},
    {"last": [3], "second": [1]},
)


def run(folder: Path, *files: Network, ids: bool = False, past: int | None = None) -> Row:
    """Take a network through the chain in int8; a second file is the same from another exporter."""
    random = np.random.default_rng(12)
    for number, network in enumerate(files):
        onnx.save(network.model(), folder / f"net.{'zy'[number]}.onnx")
    shapes = dict(files[0].inputs)
    if past is not None:
        shapes = dict.fromkeys(shapes, (1, 2, past, 32))
    for part, count in (("calib", 12), ("test", 6)):
        arrays = {name: random.normal(size=(count, *shape)).astype(np.float32) for name, shape in shapes.items()}
        if ids:
            arrays["ids"] = random.integers(0, 256, (count, 1, 4))
        np.savez(folder / f"net.{part}.npz", **arrays)
    scratch = folder / "made"
    scratch.mkdir()
    return Chain(folder, "net", scratch).run({"int8": ()}, peer=False)


SLOW = pytest.mark.slow(reason="a network from float to engine")


@pytest.mark.builder
@pytest.mark.parametrize(
    ("network", "weights", "pairs", "least_db"),
    [
        pytest.param(WEIGHT_NORM, 2, 2, 30, id="weight norm", marks=SLOW),
        pytest.param(RESIDUAL, 3, 3, 25, id="residual of open extents", marks=SLOW),
        pytest.param(SQUEEZE, 4, 4, 25, id="squeeze and excite"),
        pytest.param(EXPERTS, 3, 2, 30, id="experts", marks=SLOW),
    ],
)
def test_a_network_keeps_every_promise(tmp_path, network, weights, pairs, least_db):
    row = run(tmp_path, network)
    made = row.modes["int8"]
    assert list(page.problems(row)) == []
    assert (made.weights, made.pairs, made.achieved) == (weights, pairs, made.planned)
    assert made.sqnr_db > least_db
    assert row.float_refusal == made.refusal == ""
    quantized = onnx.load(tmp_path / "made" / "int8.onnx").graph
    dequantized = {node.output[0] for node in quantized.node if node.op_type == "DequantizeLinear"}
    # The pair of the skip branch is that of the layer which reads the same tensor.
    assert all(dequantized & {*node.input} for node in quantized.node if node.op_type == "Add")


@pytest.mark.builder
@pytest.mark.parametrize("past", [pytest.param(6, marks=SLOW), 0], ids=["a cache", "an empty cache"])
def test_a_decoder_keeps_every_promise(tmp_path, past):
    row = run(tmp_path, DECODER, ids=True, past=past)
    made = row.modes["int8"]
    assert list(page.problems(row)) == []
    # Seven layers, the tied table, and both products of the attention, which have no weight.
    assert made.weights == 8
    assert made.achieved == made.planned >= 10
    assert made.sqnr_db > 25


@pytest.mark.builder
def test_two_exporters_give_the_same(tmp_path):
    row = run(tmp_path, POOLED, REDUCED)
    made, other = row.modes["int8"], row.others["y"]
    assert list(page.problems(row)) == []
    assert (made.weights, made.pairs, made.equalized) == (other.weights, other.pairs, other.equalized)
    assert other.sqnr_db == pytest.approx(made.sqnr_db, abs=0.5)
