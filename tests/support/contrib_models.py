"""Small models with contrib operators, made as users make them, with random weights.

``fused`` runs the optimizer of ``onnxruntime.transformers`` on a model as PyTorch exports it. ``genai_decoder`` has the
operators that the model builder of onnxruntime-genai writes.
"""

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

HIDDEN, HEADS, VOCABULARY, TOKENS = 64, 4, 96, 16
SIZE = HIDDEN // HEADS
KV_HEADS = 2
SAMPLES = 24


class Weights:
    """Collects random initializers."""

    def __init__(self, seed: int) -> None:
        self.tensors: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(seed)

    def add(self, name: str, *shape: int, center: float = 0.0, spread: float | None = None) -> str:
        """Store normal numbers, by default as wide as keeps the magnitude in a product; return the name."""
        width = 1 / math.sqrt(shape[0]) if spread is None else spread
        return self.store(name, (center + width * self._rng.normal(size=shape)).astype(np.float32))

    def codes(self, name: str, *shape: int) -> str:
        """Store random bytes."""
        return self.store(name, self._rng.integers(0, 256, shape, np.uint8))

    def store(self, name: str, array: np.ndarray) -> str:
        """Store an array; return the name."""
        self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def model(self, signature: str, lines: Iterator[str], opset: int) -> onnx.ModelProto:
        """Return the model of ONNX text with these initializers."""
        header = f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>'
        made = parser.parse_model(f"{header} g {signature} {{ {' '.join(lines)} }}")
        made.graph.initializer.extend(self.tensors)
        for node in made.graph.node:
            # ONNX text has no empty names for outputs.
            node.output[:] = ["" if name.startswith("unused") else name for name in node.output]
        return made


def _linear(w: Weights, out: str, x: str, rows: int, columns: int) -> str:
    w.add(f"{out}_w", rows, columns)
    w.add(f"{out}_b", columns, spread=0.1)
    return f"{out}_p = MatMul ({x}, {out}_w) {out} = Add ({out}_b, {out}_p)"


def _norm(w: Weights, out: str, x: str) -> str:
    w.add(f"{out}_g", HIDDEN, center=1.0, spread=0.1)
    w.add(f"{out}_c", HIDDEN, spread=0.1)
    return f"{out} = LayerNormalization <axis = -1, epsilon = 1e-5> ({x}, {out}_g, {out}_c)"


def _gelu(out: str, x: str) -> str:
    return (
        f"{out}_d = Div ({x}, root2) {out}_e = Erf ({out}_d) {out}_f = Add ({out}_e, one) {out}_m = Mul ({x}, {out}_f) "
        f"{out} = Mul ({out}_m, half)"
    )


def _constants(w: Weights) -> None:
    for name, value in (("root2", math.sqrt(2)), ("one", 1.0), ("half", 0.5), ("root_size", math.sqrt(SIZE))):
        w.store(name, np.float32(value))
    w.store("to_heads", np.array([0, 0, HEADS, SIZE], np.int64))
    w.store("to_hidden", np.array([0, 0, HIDDEN], np.int64))


def encoder(layers: int = 2) -> onnx.ModelProto:
    """Return a BERT-like encoder as PyTorch exports it: embeddings, a mask of padding, and ``layers`` blocks."""
    w = Weights(1)
    _constants(w)
    w.store("low", np.float32(-10000))
    w.store("axis1", np.array([1], np.int64))
    w.store("axis2", np.array([2], np.int64))
    w.store("positions", np.arange(TOKENS, dtype=np.int64)[None])

    def lines() -> Iterator[str]:
        for name, rows in (("word", VOCABULARY), ("place", TOKENS), ("segment", 2)):
            w.add(name, rows, HIDDEN, spread=1.0)
        yield "ew = Gather (word, ids) es = Gather (segment, kinds) ep = Gather (place, positions)"
        yield f"e1 = Add (ew, es) e2 = Add (e1, ep) {_norm(w, 'h0', 'e2')}"
        yield "u1 = Unsqueeze (mask, axis1) u2 = Unsqueeze (u1, axis2) fm = Cast <to = 1> (u2)"
        yield "im = Sub (one, fm) bias = Mul (im, low)"
        for at in range(layers):
            x = f"h{2 * at}"
            for part in "qkv":
                perm = "[0, 2, 3, 1]" if part == "k" else "[0, 2, 1, 3]"
                yield _linear(w, f"{part}{at}", x, HIDDEN, HIDDEN)
                yield f"{part}r{at} = Reshape ({part}{at}, to_heads)"
                yield f"{part}t{at} = Transpose <perm = {perm}> ({part}r{at})"
            yield f"s{at} = MatMul (qt{at}, kt{at}) sd{at} = Div (s{at}, root_size) sm{at} = Add (sd{at}, bias)"
            yield f"p{at} = Softmax <axis = -1> (sm{at}) c{at} = MatMul (p{at}, vt{at})"
            yield f"ct{at} = Transpose <perm = [0, 2, 1, 3]> (c{at}) cr{at} = Reshape (ct{at}, to_hidden)"
            yield _linear(w, f"o{at}", f"cr{at}", HIDDEN, HIDDEN)
            yield f"r{at} = Add (o{at}, {x}) {_norm(w, f'h{2 * at + 1}', f'r{at}')}"
            yield _linear(w, f"f{at}", f"h{2 * at + 1}", HIDDEN, 4 * HIDDEN)
            yield _gelu(f"g{at}", f"f{at}")
            yield _linear(w, f"d{at}", f"g{at}", 4 * HIDDEN, HIDDEN)
            yield f"r2{at} = Add (d{at}, h{2 * at + 1}) {_norm(w, f'h{2 * at + 2}', f'r2{at}')}"
        yield f"y = Identity (h{2 * layers})"

    ids = f"int64[2,{TOKENS}]"
    return w.model(f"({ids} ids, {ids} kinds, {ids} mask) => (float[2,{TOKENS},{HIDDEN}] y)", lines(), 17)


def two_way_decoder() -> onnx.ModelProto:
    """Return a decoder like that of SAM 2: prompts attend to themselves and to the image, and give masks."""
    w = Weights(2)
    _constants(w)
    w.store("zero", np.array([0], np.int64))
    w.store("minus1", np.array([-1], np.int64))
    w.store("whole", np.array([2**31 - 1], np.int64))
    w.store("one1", np.float32(1))

    def attend(out: str, q: str, k: str, v: str) -> Iterator[str]:
        for part, source in (("q", q), ("k", k), ("v", v)):
            yield _linear(w, f"{part}{out}", source, HIDDEN, HIDDEN)
            yield f"{part}r{out} = Reshape ({part}{out}, to_heads)"
            perm = "[0, 2, 3, 1]" if part == "k" else "[0, 2, 1, 3]"
            yield f"{part}t{out} = Transpose <perm = {perm}> ({part}r{out})"
        # PyTorch's export multiplies both sides by the root of the factor, which it computes from the shape.
        yield f"sh{out} = Shape (qt{out}) sl{out} = Slice (sh{out}, minus1, whole) cs{out} = Cast <to = 1> (sl{out})"
        yield f"sq{out} = Sqrt (cs{out}) dv{out} = Div (one1, sq{out}) sc{out} = Sqrt (dv{out})"
        yield f"sc2{out} = Sqrt (dv{out}) qm{out} = Mul (qt{out}, sc{out}) km{out} = Mul (kt{out}, sc2{out})"
        yield f"s{out} = MatMul (qm{out}, km{out}) p{out} = Softmax <axis = -1> (s{out})"
        yield f"c{out} = MatMul (p{out}, vt{out}) ct{out} = Transpose <perm = [0, 2, 1, 3]> (c{out})"
        yield f"cr{out} = Reshape (ct{out}, to_hidden)"
        yield _linear(w, out, f"cr{out}", HIDDEN, HIDDEN)

    def lines() -> Iterator[str]:
        yield from attend("a", "prompts", "prompts", "prompts")
        yield f"ra = Add (prompts, a) {_norm(w, 'na', 'ra')}"
        yield from attend("b", "na", "image", "image")
        yield f"rb = Add (na, b) {_norm(w, 'nb', 'rb')}"
        yield _linear(w, "f", "nb", HIDDEN, 4 * HIDDEN)
        yield "fr = Relu (f)"
        yield _linear(w, "d", "fr", 4 * HIDDEN, HIDDEN)
        yield f"rc = Add (nb, d) {_norm(w, 'nc', 'rc')}"
        yield from attend("i", "image", "nc", "nc")
        yield f"ri = Add (image, i) {_norm(w, 'ni', 'ri')}"
        yield _linear(w, "up", "ni", HIDDEN, HIDDEN)
        yield _gelu("ug", "up")
        yield "ut = Transpose <perm = [0, 2, 1]> (ug) masks = MatMul (nc, ut)"

    signature = f"(float[1,8,{HIDDEN}] prompts, float[1,64,{HIDDEN}] image) => (float[1,8,64] masks)"
    return w.model(signature, lines(), 17)


def genai_decoder(layers: int = 2, past: int = 16, tokens: int = 4) -> onnx.ModelProto:
    """Return a Llama-like decoder as onnxruntime-genai exports it in int4, with ``past`` cached tokens."""
    w = Weights(3)
    block = 32

    def product(out: str, x: str, rows: int, columns: int) -> str:
        w.codes(f"{out}_q", columns, rows // block, block // 2)
        w.store(f"{out}_s", np.full((columns, rows // block), 0.3 / math.sqrt(rows), np.float32))
        numbers = f"K = {rows}, N = {columns}, bits = 4, block_size = {block}"
        return f"{out} = com.microsoft.MatMulNBits <{numbers}> ({x}, {out}_q, {out}_s)"

    def lines() -> Iterator[str]:
        w.add("table", VOCABULARY, HIDDEN, spread=1.0)
        angles = np.arange(64)[:, None] / 100 ** (np.arange(SIZE // 2) / SIZE * 2)
        w.store("cos", np.cos(angles).astype(np.float32))
        w.store("sin", np.sin(angles).astype(np.float32))
        w.store("axes", np.array([1], np.int64))
        w.store("one", np.array(1, np.int32))
        w.store("second", np.array(1, np.int64))
        yield "mi = Cast <to = 6> (attention_mask) ms = ReduceSum <keepdims = 0> (mi, axes) lengths = Sub (ms, one)"
        yield "shape = Shape (attention_mask) all = Gather <axis = 0> (shape, second) total = Cast <to = 6> (all)"
        yield "h = Gather (table, input_ids)"
        w.add("g0", HIDDEN, center=1.0, spread=0.1)
        yield "n0 = SimplifiedLayerNormalization <axis = -1, epsilon = 1e-5, stash_type = 1> (h, g0)"
        total = "h"
        for at in range(layers):
            x = f"n{2 * at}"
            yield product(f"q{at}", x, HIDDEN, HIDDEN)
            yield product(f"k{at}", x, HIDDEN, KV_HEADS * SIZE)
            yield product(f"v{at}", x, HIDDEN, KV_HEADS * SIZE)
            yield (
                f"a{at}, present_key{at}, present_value{at} = com.microsoft.GroupQueryAttention <num_heads = {HEADS}, "
                f"kv_num_heads = {KV_HEADS}, do_rotary = 1, rotary_interleaved = 0> "
                f"(q{at}, k{at}, v{at}, past_key{at}, past_value{at}, lengths, total, cos, sin)"
            )
            yield product(f"o{at}", f"a{at}", HIDDEN, HIDDEN)
            yield _skip(w, at, 2 * at + 1, total, f"o{at}", f"t{at}")
            yield product(f"gate{at}", f"n{2 * at + 1}", HIDDEN, 2 * HIDDEN)
            yield product(f"up{at}", f"n{2 * at + 1}", HIDDEN, 2 * HIDDEN)
            yield f"sg{at} = Sigmoid (gate{at}) si{at} = Mul (gate{at}, sg{at}) m{at} = Mul (si{at}, up{at})"
            yield product(f"d{at}", f"m{at}", 2 * HIDDEN, HIDDEN)
            total = f"u{at}"
            yield _skip(w, at, 2 * at + 2, f"t{at}", f"d{at}", total if at < layers - 1 else "")
        yield product("logits", f"n{2 * layers}", HIDDEN, VOCABULARY)

    cache, grown = f"float[1,{KV_HEADS},{past},{SIZE}]", f"float[1,{KV_HEADS},{past + tokens},{SIZE}]"
    caches = "".join(f", {cache} past_key{at}, {cache} past_value{at}" for at in range(layers))
    results = "".join(f", {grown} present_key{at}, {grown} present_value{at}" for at in range(layers))
    signature = f"(int64[1,{tokens}] input_ids, int64[1,{past + tokens}] attention_mask{caches})"
    return w.model(f"{signature} => (float[1,{tokens},{VOCABULARY}] logits{results})", lines(), 21)


def _skip(w: Weights, at: int, number: int, skip: str, x: str, total: str) -> str:
    w.add(f"g{number}", HIDDEN, center=1.0, spread=0.1)
    sums = f", unused_mean{number}, unused_deviation{number}, {total}" if total else ""
    return f"n{number}{sums} = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1e-5> ({skip}, {x}, g{number})"


def fused(model: onnx.ModelProto, model_type: str) -> onnx.ModelProto:
    """Return what the optimizer of ``onnxruntime.transformers`` makes of a model."""
    from onnxruntime.transformers import optimizer

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save(model, path)
        found = optimizer.optimize_model(str(path), model_type, num_heads=HEADS, hidden_size=HIDDEN, opt_level=0)
        return found.model


def encoder_data() -> dict[str, np.ndarray]:
    rng, shape = np.random.default_rng(5), (SAMPLES, 2, TOKENS)
    lengths = rng.integers(4, TOKENS + 1, (SAMPLES, 2, 1))
    mask = (np.arange(TOKENS) < lengths).astype(np.int64)
    return {"ids": rng.integers(0, VOCABULARY, shape), "kinds": rng.integers(0, 2, shape), "mask": mask}


def decoder_data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(6)
    shapes = {"prompts": (SAMPLES, 1, 8, 64), "image": (SAMPLES, 1, 64, 64)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def genai_data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    caches = [f"past_{kind}{layer}" for kind in ("key", "value") for layer in (0, 1)]
    past = {name: rng.normal(size=(SAMPLES, 1, 2, 16, 16)).astype(np.float32) for name in caches}
    ids = rng.integers(0, VOCABULARY, (SAMPLES, 1, 4))
    return {"input_ids": ids, "attention_mask": np.ones((SAMPLES, 1, 20), np.int64), **past}
