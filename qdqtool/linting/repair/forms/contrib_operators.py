"""Rewrite operators of ONNX Runtime's optimizers that TensorRT does not build as operators of ONNX.

``docs/developers/contrib_operators.md`` lists what TensorRT builds: those nodes stay. The order of sums may differ, so
outputs may differ by rounding.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from qdqtool.linting.repair.forms._contrib_body import Body
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError
from qdqtool.models.graph.index.signature import CONTRIB
from qdqtool.models.graph.index.view import NodeView

WRITTEN = Offer("safe", "writes a contrib operator as operators of ONNX")
UNPADDED = Offer("unsafe", "writes GroupQueryAttention as operators of ONNX, exactly if no sequence is padded")

_EPSILON = 1e-12
"""ONNX Runtime's default. TensorRT for RTX 1.7.1 takes 1e-5."""


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every contrib operator that is written in another form."""
    for node in context.nodes:
        if node.domain != CONTRIB or context.called(node) is not None:
            continue
        if node.op_type == "SkipSimplifiedLayerNormalization" and node.attribute("epsilon") is None:
            yield node, WRITTEN.fix(f"stores the epsilon of {node.op_type}; TensorRT has another default", _store, node)
        if node.op_type not in _BODIES or _is_built(context, node):
            continue
        is_grouped = node.op_type == "GroupQueryAttention"
        words = f"writes {node.op_type} as operators of ONNX"
        note = "; exact if no sequence is padded and the cache has no free places" if is_grouped else ""
        yield node, (UNPADDED if is_grouped else WRITTEN).fix(words + note, _write, node)


def _store(node: NodeView, draft: Draft) -> None:
    draft.set_attribute(node, "epsilon", _EPSILON)


def _is_built(context: RuleContext, node: NodeView) -> bool:
    """Return whether TensorRT for RTX builds a MultiHeadAttention."""
    if node.op_type != "MultiHeadAttention":
        return False
    given = {index for index, name in enumerate(node.proto.input) if name}
    shapes = [context.shape(node.input(index)) for index in (1, 2)]
    is_masked = node.attribute("unidirectional", 0) and 5 in given
    is_plain = {0, 1, 2} <= given <= {0, 1, 2, 5} and not any(node.proto.output[1:]) and not is_masked
    return is_plain and all(shape is None or len(shape) == 3 for shape in shapes)


def _write(node: NodeView, draft: Draft) -> None:
    if node.is_parametric:
        raise UnfitError("its attributes are arguments of a local function")
    body = Body(node, draft)
    results = _BODIES[node.op_type](body)
    used = {index: name for index, name in enumerate(node.proto.output) if name}
    if used.keys() - results.keys():
        raise UnfitError(f"its output '{used[max(used.keys() - results.keys())]}' has no other form")
    body.place({results[index]: name for index, name in used.items()})


def _activated(body: Body, value: str, numbers: Sequence[float]) -> str:
    """Apply the attribute ``activation`` with its parameters."""
    name = body.node.attribute("activation", b"")
    kind = name.decode() if isinstance(name, bytes) else name
    if kind in {"Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"}:
        return body.add(kind, value)
    if kind == "LeakyRelu" and numbers:
        return body.add(kind, value, alpha=numbers[0])
    if kind == "HardSigmoid" and len(numbers) > 1:
        return body.add(kind, value, alpha=numbers[0], beta=numbers[1])
    if kind == "Clip" and len(numbers) > 1:
        return body.add(kind, value, *map(body.number, numbers[:2]))
    if kind:
        raise UnfitError(f"its activation '{kind}' has no other form")
    return value


def _kept(body: Body, *names: str) -> dict[str, Any]:
    """Return those attributes of the node that have one of these names."""
    return {name: value for name in names if (value := body.node.attribute(name)) is not None}


def _gelu(body: Body) -> dict[int, str]:
    body.needs(20)
    approximate = "tanh" if body.node.op_type == "FastGelu" else "none"
    return {0: body.add("Gelu", body.sum(*body.inputs(2)), approximate=approximate)}


def _quick_gelu(body: Body) -> dict[int, str]:
    (x,) = body.inputs(1)
    gate = body.add("Sigmoid", body.add("Mul", x, body.number(body.node.attribute("alpha", 1.702))))
    return {0: body.add("Mul", x, gate)}


def _skip_layer_normalization(body: Body) -> dict[int, str]:
    body.needs(17)
    x, skip, gamma, beta, bias = body.inputs(5)
    total = body.sum(x, skip, bias)
    return {0: _normalized(body, total, gamma, beta), 3: total}


def _normalized(body: Body, value: str, gamma: str, beta: str) -> str:
    epsilon = body.node.attribute("epsilon", _EPSILON)
    return body.add("LayerNormalization", value, gamma, *filter(None, [beta]), axis=-1, epsilon=epsilon)


def _embed_layer_normalization(body: Body) -> dict[int, str]:
    body.needs(17)
    ids, kinds, words, places, segments, gamma, beta, mask, positions = body.inputs(9)
    length = body.add("Slice", body.add("Shape", ids), body.ints(1), body.ints(2))
    place = body.add("Gather", places, positions) if positions else body.add("Slice", places, body.ints(0), length)
    segment = body.add("Gather", segments, kinds) if segments else ""
    total = body.sum(body.add("Gather", words, ids), place, segment)
    results = {0: _normalized(body, total, gamma, beta), 2: total}
    if mask and not body.node.attribute("mask_index_type", 0):
        results[1] = body.add("ReduceSum", mask, body.ints(1), keepdims=0)
    return results


def _fused_matmul(body: Body) -> dict[int, str]:
    if body.node.attribute("transBatchA", 0) or body.node.attribute("transBatchB", 0):
        raise UnfitError("it transposes the batch")
    operands = body.inputs(2)
    for index, name in enumerate(("transA", "transB")):
        rank = len(body.shape(index)) if body.node.attribute(name, 0) else 0
        if rank > 1:
            perm = [*range(rank - 2), rank - 1, rank - 2]
            operands[index] = body.add("Transpose", operands[index], perm=perm)
    product, factor = body.add("MatMul", *operands), body.node.attribute("alpha", 1.0)
    return {0: product if factor == 1 else body.add("Mul", product, body.number(factor))}


def _fused_gemm(body: Body) -> dict[int, str]:
    product = body.add("Gemm", *filter(None, body.inputs(3)), **_kept(body, "alpha", "beta", "transA", "transB"))
    numbers = _kept(body, "activation_alpha", "activation_beta")
    return {0: _activated(body, product, [*numbers.values()] if "activation_alpha" in numbers else [])}


def _fused_conv(body: Body) -> dict[int, str]:
    x, weight, bias, other = body.inputs(4)
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    made = body.add("Conv", x, weight, *filter(None, [bias]), **_kept(body, *names))
    return {0: _activated(body, body.sum(made, other), body.node.attribute("activation_params", []))}


def _heads(body: Body, value: str, count: int) -> str:
    return body.add("Transpose", body.add("Reshape", value, body.ints(0, 0, count, -1)), perm=[0, 2, 1, 3])


def _extent(body: Body, value: str, axis: int) -> str:
    """Return an extent of a tensor as a scalar."""
    return body.add("Gather", body.add("Shape", value), body.store(np.int64(axis)))


def _numbers(body: Body, count: str) -> str:
    """Return the numbers from 0 on."""
    return body.add("Range", body.store(np.int64(0)), count, body.store(np.int64(1)))


def _blocking(body: Body, allowed: str, low: float) -> str:
    """Return what is added to scores: 0 where ``allowed``, else a large negative number."""
    return body.add("Where", allowed, body.number(0.0), body.number(low))


def _key_mask(body: Body, index: int, keys: str, low: float) -> str:
    """Return what is added to scores for a mask of keys; an empty name without such an input."""
    mask = body.node.input_name(index)
    if not mask:
        return ""
    rank = len(body.shape(index))
    if rank == 1 and body.shape(index) == body.shape(0)[:1]:
        lengths = body.add("Cast", body.add("Unsqueeze", mask, body.ints(1)), to=TensorProto.INT64)
        allowed, rank = body.add("Less", _numbers(body, _extent(body, keys, 2)), lengths), 2
    elif rank in {2, 3}:
        allowed = body.add("Cast", mask, to=TensorProto.BOOL)
    else:
        raise UnfitError("its mask has another form than a length, or a number for each key")
    axes = body.ints(1, 2) if rank == 2 else body.ints(1)
    return _blocking(body, body.add("Unsqueeze", allowed, axes), low)


def _attend(body: Body, parts: Sequence[str], scale: float, masks: Sequence[str]) -> str:
    """Return the attention of queries, keys and values, all with a dimension of heads."""
    queries, keys, values = parts
    scores = body.add("MatMul", queries, body.add("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = body.add("Mul", scores, body.number(scale))
    cap = body.node.attribute("softcap", 0.0)
    if cap:
        scores = body.add("Mul", body.add("Tanh", body.add("Div", scores, body.number(cap))), body.number(cap))
    mixed = body.add("MatMul", body.add("Softmax", body.sum(scores, *masks), axis=-1), values)
    return body.add("Reshape", body.add("Transpose", mixed, perm=[0, 2, 1, 3]), body.ints(0, 0, -1))


def _scale(body: Body, size: int) -> float:
    # ONNX Runtime takes 0 as absent.
    return body.node.attribute("scale", 0.0) or 1 / math.sqrt(size)


def _causal(body: Body, queries: str, keys: str, low: float) -> list[str]:
    """Return what is added to scores so that no query reads a later key."""
    if not body.node.attribute("unidirectional", 0):
        return []
    total, length = (_extent(body, each, 2) for each in (keys, queries))
    places = body.add("Add", _numbers(body, length), body.add("Sub", total, length))
    column = body.add("Unsqueeze", places, body.ints(1))
    return [_blocking(body, body.add("LessOrEqual", _numbers(body, total), column), low)]


def _attention(body: Body) -> dict[int, str]:
    body.refuse(4, 6)
    node, (x, weight, bias) = body.node, body.inputs(3)
    heads, columns = body.count("num_heads"), body.size(1)
    sizes = node.attribute("qkv_hidden_sizes", [columns // 3] * 3)
    if node.attribute("do_rotary", 0):
        raise UnfitError("it rotates positions")
    joined = body.sum(body.add("MatMul", x, weight), bias)
    split = body.several("Split", joined, body.ints(*sizes), outputs=3, axis=2)
    parts = [_heads(body, each, heads) for each in split]
    low = node.attribute("mask_filter_value", -10000.0)
    masks = [_key_mask(body, 3, parts[1], low), node.input_name(5), *_causal(body, parts[0], parts[1], low)]
    return {0: _attend(body, parts, _scale(body, sizes[0] // heads), masks)}


def _multi_head_attention(body: Body) -> dict[int, str]:
    body.refuse(8, 9)
    node, heads = body.node, body.count("num_heads")
    parts = body.inputs(3)
    if not all(parts) or len(body.shape(1)) == 5:
        raise UnfitError("its queries, keys and values are packed")
    width = body.size(0)
    if node.input_name(3):
        biases = np.split(body.array(3), [width, 2 * width])
        parts = [body.add("Add", part, body.store(bias)) for part, bias in zip(parts, biases, strict=True)]
    parts = [part if len(body.shape(at)) == 4 else _heads(body, part, heads) for at, part in enumerate(parts)]
    parts[1:] = _cached(body, parts[1:], 6)
    low = node.attribute("mask_filter_value", -10000.0)
    masks = [_key_mask(body, 4, parts[1], low), node.input_name(5), *_causal(body, parts[0], parts[1], low)]
    return {0: _attend(body, parts, _scale(body, width // heads), masks), 1: parts[1], 2: parts[2]}


def _cached(body: Body, parts: Sequence[str], first: int) -> list[str]:
    """Return keys and values behind those of the cache, which are inputs from ``first`` on."""
    past = [body.node.input_name(first + at) for at in range(2)]
    if not all(past):
        return [*parts]
    return [body.add("Concat", *pair, axis=2) for pair in zip(past, parts, strict=True)]


def _group_query_attention(body: Body) -> dict[int, str]:
    body.refuse(*range(11, 16))
    node = body.node
    for name in ("smooth_softmax", "qk_output", "kv_cache_bit_width", "sliding_window_cache"):
        if node.attribute(name, 0) not in {0, -1}:
            raise UnfitError(f"its attribute {name} has no other form")
    heads, shared = body.count("num_heads"), body.count("kv_num_heads")
    parts, size = body.inputs(3), body.size(0) // heads
    if not parts[1]:
        size = body.size(0) // (heads + 2 * shared)
        sizes = body.ints(heads * size, shared * size, shared * size)
        parts = [*body.several("Split", parts[0], sizes, outputs=3, axis=2)]
    parts = [_heads(body, part, count) for part, count in zip(parts, (heads, shared, shared), strict=True)]
    length, last = _extent(body, node.input_name(0), 1), body.add("Cast", node.input_name(5), to=TensorProto.INT64)
    start = body.add("Sub", body.add("Add", last, body.store(np.int64(1))), length)
    places = body.add("Add", body.add("Reshape", start, body.ints(-1, 1)), _numbers(body, length))
    if node.attribute("do_rotary", 0):
        angles, kept = (node.input_name(9) or places, *body.inputs(9)[7:]), node.attribute("rotary_interleaved", 0)
        parts[:2] = [body.add("RotaryEmbedding", part, *angles, domain=CONTRIB, interleaved=kept) for part in parts[:2]]
    parts[1:] = present = _cached(body, parts[1:], 3)
    keys, rows = _numbers(body, _extent(body, parts[1], 2)), body.add("Unsqueeze", places, body.ints(1, 3))
    allowed, window = body.add("LessOrEqual", keys, rows), node.attribute("local_window_size", -1)
    if window > 0:
        near = body.add("Greater", keys, body.add("Sub", rows, body.store(np.int64(window))))
        allowed = body.add("And", allowed, near)
    masks = [_blocking(body, allowed, -10000.0)] if node.attribute("causal", 1) else []
    if heads != shared:
        shape = body.ints(1, 1, heads // shared, 1, 1), body.ints(0, heads, -1, size)
        wide = [body.add("Expand", body.add("Unsqueeze", part, body.ints(2)), shape[0]) for part in parts[1:]]
        parts[1:] = [body.add("Reshape", part, shape[1]) for part in wide]
    mixed = _attend(body, parts, _scale(body, size), [*masks, node.input_name(10)])
    return {0: mixed, 1: present[0], 2: present[1]}


_BODIES: Mapping[str, Callable[[Body], dict[int, str]]] = {
    "Attention": _attention,
    "BiasGelu": _gelu,
    "EmbedLayerNormalization": _embed_layer_normalization,
    "FastGelu": _gelu,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "GroupQueryAttention": _group_query_attention,
    "MultiHeadAttention": _multi_head_attention,
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _skip_layer_normalization,
    "TransposeMatMul": _fused_matmul,
}
