"""QT415: dequantized weights that two groups of products share: they crash the builder."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from qdqtool.linting.rules.support.fix import Draft, Offer, UnfitError
from qdqtool.linting.rules.support.reach import Product
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.models.targets import Target

OWN = Offer("safe", "gives a product its own DQ, with copies of the codes and scales")

_Constants = tuple[Value | None, Value | None]
"""The codes and the scales of a weight."""


class SharedWeight(Rule):
    """Products that read different activations do not share dequantized weights.

    Why it matters: if only weights are quantized, TensorRT for RTX joins products that read the same activation, such
    as query, key and value. Two such groups may share weights, for example in a network that runs one layer many times.
    Then the builder fails with an internal error or a segmentation fault. The parser reports nothing.

    Bad: query and key of two layers, with the same int4 weights.

    Good: the same weights, with a separate DQ, codes and scales for each product.
    """

    code = "QT415"
    name = "target.shared-weight"
    affects = impacts(tensorrt_rtx=REFUSED)
    remedy = "give each product its own DQ, codes and scales, as `quantize` does in weight-only modes"
    offers = (OWN,)
    VALID = examples("""
        a product that nothing stands beside:
            agraph (float[2,2] x) => (float[2,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] s = {0.1, 0.2}, int8[2] z = {0,0}> {
                d = DequantizeLinear <axis = 1> (w, s, z)
                m = MatMul (x, d)
                r = Relu (m)
                y = MatMul (r, d)
            }
    """)
    INVALID = examples("""
        two layers with the same weights for query and key:
            agraph (float[2,2] x) => (float[2,2] y)
            <int8[2,2] w = {1,2,3,4}, int8[2,2] v = {4,3,2,1}, float[2] s = {0.1, 0.2}, int8[2] z = {0,0}> {
                wd = DequantizeLinear <axis = 1> (w, s, z)
                vd = DequantizeLinear <axis = 1> (v, s, z)
                q = MatMul (x, wd)
                k = MatMul (x, vd)
                a = Add (q, k)
                r = Relu (a)
                q2 = MatMul (r, wd)
                k2 = MatMul (r, vd)
                y = Add (q2, k2)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the weights of the groups of products."""
        owner: dict[_Constants, Value] = {}
        for activation, members in _groups(context):
            for product, entry in members:
                first = owner.setdefault((entry.data, entry.scale), activation)
                if first is not activation:
                    yield _fault(product, entry, first, activation)


def _groups(context: RuleContext) -> Iterator[tuple[Value, list[tuple[Product, QdqNode]]]]:
    """Yield each activation that several weight-only quantized products read, with these products."""
    groups: dict[Value, list[tuple[Product, QdqNode]]] = defaultdict(list)
    for product in context.products:
        activation, weight = product.node.input(0), product.right
        if activation is None or product.left is not None or weight is None or product.op.is_convolution:
            continue
        if context.qdq.is_weight(weight.dequantize):
            groups[activation].append((product, weight.dequantize))
    yield from ((activation, members) for activation, members in groups.items() if len(members) > 1)


def _fault(product: Product, entry: QdqNode, first: Value, activation: Value) -> Fault:
    assert entry.data is not None
    message = (
        f"products of '{first.name}' and of '{activation.name}' share the weight '{entry.data.name}', and each of "
        "the two activations has other products too"
    )
    found = "shared codes and scales"
    fix = OWN.fix(f"gives it a copy of '{entry.data.name}'", _copy, product, entry)
    return Fault(message, product.node, entry.data, found=found, expected="its own codes and scales", fixes=(fix,))


def _copy(product: Product, entry: QdqNode, draft: Draft) -> None:
    if product.right is None or product.right.between:
        raise UnfitError("other operators stand between the DQ and the product")
    constants, names = draft.context.constants, list[str]()
    for value in (entry.data, entry.scale, entry.zero_point):
        tensor = constants.direct(value) if value is not None else None
        if value is not None and tensor is None:
            raise UnfitError(f"'{value.name}' is computed")
        if value is not None and tensor is not None:
            make = partial(read_array, draft.context.model, tensor)
            names.append(draft.weights(entry.node.scope, value.name, tensor, make))
    attributes = {name: entry.node.attribute(name) for name in ("axis", "block_size", "output_dtype")}
    made = draft.add(entry.node, "DequantizeLinear", tuple(names), names[0], **attributes)
    draft.set_input(product.node, product.weight_index, made)
