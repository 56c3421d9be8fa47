"""Weights that two groups of products share, which TensorRT for RTX cannot build where only weights are quantized.

TensorRT for RTX 1.7.1 joins products of one activation. Where two such groups share weights behind a DQ, its builder
fails with an internal error (int4, nvfp4) or a segmentation fault (int8); rule QT415 finds such models.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Use, Value
from qdqtool.models.plan import Slot, UseRef


def separated(slots: Sequence[Slot], index: ModelIndex) -> Mapping[Slot, tuple[Slot, ...]]:
    """Return the slots that each slot of a weight becomes: one for each activation that it must not share.

    Args:
        slots: The weights that are quantized, each with the uses that read it dequantized.
        index: The index of the model.
    """
    readers = {slot: _by_activation(slot, index) for slot in slots}
    beside = Counter(each for found in readers.values() for each, uses in found.items() for _ in uses)
    return {slot: _parts(slot, found, beside) for slot, found in readers.items()}


def _parts(slot: Slot, found: Mapping[Value | None, list[UseRef]], beside: Counter[Value | None]) -> tuple[Slot, ...]:
    groups = [activation for activation in found if activation is not None and beside[activation] > 1]
    if len(groups) < 2:
        return (slot,)
    own = [tuple(found[activation]) for activation in groups[1:]]
    shared = tuple(use for use in slot.uses or () if not any(use in uses for uses in own))
    return tuple(replace(slot, uses=uses) for uses in (shared, *own))


def _by_activation(slot: Slot, index: ModelIndex) -> dict[Value | None, list[UseRef]]:
    """Return the uses of a weight by the activation that it is multiplied with; None for uses of no product."""
    found: dict[Value | None, list[UseRef]] = defaultdict(list)
    for use in index.value(slot).uses:
        reference = UseRef(use.node.scope.path, use.node.key, use.index)
        if slot.uses is None or reference in slot.uses:
            found[_activation(use)].append(reference)
    return found


def _activation(use: Use) -> Value | None:
    node = next(ops.computing_nodes(use.node), None)
    product = ops.product(node) if node is not None else None
    return node.input(product.activation_inputs[0]) if node is not None and product is not None else None
