"""Remove DynamicQuantizeLinear and its DQ, which tf2onnx writes for dynamic-range models of TensorFlow Lite."""

from collections.abc import Iterator

from qdqtool.linting.repair.forms._dynamic import float_data
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView

FLOAT = Offer("unsafe", "removes the rounding of data that is quantized at run time")


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every DQ that reads the codes of a DynamicQuantizeLinear."""
    for entry in context.qdq.dequantizers():
        maker = entry.data.producer if entry.data is not None else None
        if maker is not None and maker.is_op("DynamicQuantizeLinear"):
            words = "removes DynamicQuantizeLinear and its DQ: the data is no longer rounded"
            yield entry.node, FLOAT.fix(words, _write, entry)


def _write(entry: QdqNode, draft: Draft) -> None:
    data = float_data(entry.data, entry.scale, entry.zero_point)
    if entry.output is None:
        raise UnfitError("nothing reads it")
    draft.require_visible(data, (use.node for use in entry.uses))
    draft.replace(entry.output, data.name)
