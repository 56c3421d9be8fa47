"""Rewrite Div, Round, Clip and Mul as a Q/DQ pair.

A Q divides and rounds once. Where the model multiplies by a reciprocal instead, values halfway between two codes may
move by one step: the report says how far the outputs move. NaN passes a Clip, but becomes a code in a Q.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.linting.repair.forms._chain import Chain, chains
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError, as_reals
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS
from qdqtool.models.graph.index.view import NodeView

PAIR = Offer("safe", "writes decomposed quantization as a Q/DQ pair")


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every fake-quantization in single operators."""
    for chain in chains(context):
        scale = (
            f"{float(as_reals(chain.scale).reshape(())):.6g}" if chain.scale.size == 1 else f"{chain.scale.size} scales"
        )
        words = f"writes Round and its neighbours as a Q/DQ pair of {chain.format} with scale {scale}"
        yield chain.round, PAIR.fix(words, _write, chain)


def _write(chain: Chain, draft: Draft) -> None:
    scope, fmt = chain.round.scope, chain.format
    axis = chain.axis
    first = max(fmt.first_opset.quantize or 0, 0 if axis is None else FIRST_OPSET_WITH_AXIS)
    if scope.opset < first or draft.context.elem_type(chain.source) not in {TensorProto.FLOAT, None}:
        raise UnfitError(f"opset {scope.opset} has no such pair, or the data is not float32")
    producer = chain.result.producer
    assert producer is not None
    shape = () if axis is None else (chain.scale.size,)
    scale = chain.scale.reshape(shape)
    zero = np.broadcast_to(chain.zero_point.reshape(-1), (chain.scale.size,)).reshape(shape).astype(fmt.dtype)
    name = chain.source.name
    constants = (
        draft.constant(scope, f"{name}_scale", scale, onnx.helper.np_dtype_to_tensor_dtype(scale.dtype)),
        draft.constant(scope, f"{name}_zero_point", zero, fmt.onnx_type),
    )
    source = name
    if chain.narrow:
        source = _clipped(chain, draft, source)
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    codes = draft.add(chain.round, "QuantizeLinear", (source, *constants), name, **attributes)
    draft.remove(producer)
    draft.place(scope, "DequantizeLinear", (codes, *constants), chain.result.name, attributes)


def _clipped(chain: Chain, draft: Draft, source: str) -> str:
    """Clip the data where the range excludes the lowest code: a Q has no narrow range."""
    if chain.axis is not None or chain.scale.dtype != np.float32:
        raise UnfitError(f"the range of codes leaves the lowest one of {chain.format} out, for each channel")
    low = np.multiply(chain.scale.reshape(()), np.float32(-chain.format.high), dtype=np.float32)
    bound = draft.constant(chain.round.scope, f"{source}_low", low, TensorProto.FLOAT)
    return draft.add(chain.round, "Max", (source, bound), source)
