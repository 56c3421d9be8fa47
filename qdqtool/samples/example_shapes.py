"""Shapes for the option that an error message prints: sizes that the model takes, where its first layer tells them."""

from collections.abc import Iterator, Mapping, Sequence

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops import ProductOp
from qdqtool.samples.input_shapes import spell_shapes
from qdqtool.samples.signature import Dim

# By rank: 224 for images, 32 for volumes, 128 for sequences. They stand in messages only and are never used unasked: an
# engine for 1x3x1x1 would build without complaint and be useless.
_USUAL = {4: 224, 5: 32}
_USUAL_ELSE = 128
_KEEP_CHANNELS = ("QuantizeLinear", "DequantizeLinear", "Cast", "Identity", "Mul", "Div", "Add", "Sub", "Clip")
_DEPTH = 8


_Product = tuple[NodeView, ProductOp, tuple[int, ...]]


def example_option(index: ModelIndex, inputs: Mapping[str, Sequence[Dim] | None], known: Mapping[str, int]) -> str:
    """Spell example shapes of inputs as one word, as ``x:1x3x224x224,mask:1x128``.

    Args:
        index: The model.
        inputs: The declared dimensions of each input, None where it declares no rank.
        known: Sizes of symbolic dimensions that are settled already.
    """
    sizes = dict(known)
    return spell_shapes({name: _example(index, name, dims, sizes) for name, dims in inputs.items()})


def _example(index: ModelIndex, name: str, dims: Sequence[Dim] | None, sizes: dict[str, int]) -> tuple[int, ...]:
    """An example for one input; symbols that get a size here are added to ``sizes``."""
    rank, axis, channels = _first_layer(index.view.main.values[name], index)
    declared: Sequence[Dim] = dims if dims is not None else (None,) * (rank or 2)
    found: list[int] = []
    for place, dim in enumerate(declared):
        size = sizes.get(dim) if isinstance(dim, str) else dim
        if size is None and channels is not None and place == axis % len(declared):
            size = channels
        if size is None:
            size = _USUAL.get(len(declared), _USUAL_ELSE) if place else 1
        if isinstance(dim, str):
            sizes[dim] = size
        found.append(size)
    return tuple(found)


def _first_layer(value: Value, index: ModelIndex) -> tuple[int | None, int, int | None]:
    """What the first layer that reads a tensor says of it: rank, axis of the channels, and their number; or None."""
    for node, product, weight in _products(value, index, _DEPTH):
        layout = product.product_layout(node, weight)
        if layout is not None:
            return (len(weight), 1, layout.inputs) if product.is_convolution else (2, -1, layout.inputs)
    return None, 0, None


def _products(value: Value, index: ModelIndex, depth: int) -> Iterator[_Product]:
    for use in value.uses:
        product = ops.product(use.node)
        if product is not None and use.index == 0:
            weight = use.node.input(product.weight_input)
            shape = index.types.shape(weight) if weight is not None else None
            extents = tuple(extent for extent in shape or () if isinstance(extent, int))
            if shape and len(extents) == len(shape) and 0 not in extents:
                yield use.node, product, extents
        output = use.node.output()
        if output is not None and depth and use.node.is_op(*_KEEP_CHANNELS):
            yield from _products(output, index, depth - 1)
