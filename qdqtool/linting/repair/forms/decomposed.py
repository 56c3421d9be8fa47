"""Rewrite Div, Round, Clip and Mul as a Q/DQ pair.

A Q divides and rounds once. If the model multiplies by a reciprocal instead, values halfway between two codes may move
by one step. The report shows how much the outputs change. A Clip keeps NaN, but a Q turns NaN into a code.
"""

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from qdqtool.linting.repair.forms._chain import Chain, chains, write_constants
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError, as_reals
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS
from qdqtool.models.graph.index.view import NodeView

PAIR = Offer("safe", "writes decomposed quantization as a Q/DQ pair", is_open_for_nan=True)


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every fake-quantization in single operators."""
    for chain in chains(context):
        scale = (
            f"{float(as_reals(chain.scale).reshape(())):.6g}" if chain.scale.size == 1 else f"{chain.scale.size} scales"
        )
        words = f"writes Round and its neighbors as a Q/DQ pair of {chain.format} with scale {scale}"
        yield chain.round, PAIR.fix(words, _write, chain)


def _write(chain: Chain, draft: Draft) -> None:
    scope, fmt = chain.round.scope, chain.format
    axis = chain.axis
    first = max(fmt.first_opset.quantize or 0, 0 if axis is None else FIRST_OPSET_WITH_AXIS)
    if scope.opset < first or draft.context.elem_type(chain.source) not in {TensorProto.FLOAT, None}:
        raise UnfitError(f"opset {scope.opset} has no pair with these codes and scales, or the data is not float32")
    producer = chain.result.producer
    assert producer is not None
    name = chain.source.name
    constants = write_constants(draft, scope, name, chain.scale, chain.zero_point.astype(fmt.dtype))
    source = _clipped(chain, draft, name) if chain.narrow else name
    codes = draft.add(chain.round, "QuantizeLinear", (source, *constants), name, axis=axis)
    draft.remove(producer)
    draft.place(scope, "DequantizeLinear", (codes, *constants), chain.result.name, axis=axis)


def _clipped(chain: Chain, draft: Draft, source: str) -> str:
    """Clip the data because the range excludes the lowest code: a Q has no narrow range."""
    if chain.axis is not None or chain.scale.dtype != np.float32:
        raise UnfitError(f"the codes exclude the lowest {chain.format} code, which needs one float32 scale")
    low = np.multiply(chain.scale.reshape(()), np.float32(-chain.format.high), dtype=np.float32)
    bound = draft.constant(chain.round.scope, f"{source}_low", low)
    return draft.add(chain.round, "Max", (source, bound), source)
