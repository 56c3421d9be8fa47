"""Factor rules that several operators share.

A rule gets a node, the channel axis of its input, and the index of the model. It returns the channel axis of
the output where the node commutes with a positive factor for each channel, and None where it does not.
"""

from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops._channels import ChannelLayout


def pointwise(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Accept every node: its operator works on each value alone and commutes with positive factors."""
    del node, index
    return layout


def over_space(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Accept windows over the axes behind the channels."""
    del node, index
    return layout if layout is ChannelLayout.FIRST else None


def over_axes(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Accept a node whose axes (an attribute, or stored at input 1) all lie behind the channels.

    Axes that are counted from the back lie nowhere where the rank is unknown.
    """
    axes = node.attribute("axes") or stored_integers(node.input(1), index.constants)
    rank = len(shape_of(node.input(0), index) or ())
    past = axes is not None and len(axes) > 0 and all((axis + rank if axis < 0 else axis) > 1 for axis in axes)
    return layout if past and layout is ChannelLayout.FIRST else None


def shape_of(value: Value | None, index: ModelIndex) -> tuple[int | str | None, ...] | None:
    """Return the shape of a tensor; None where its rank is unknown."""
    return index.types.shape(value) if value is not None else None


def stored_integers(value: Value | None, constants: Constants) -> list[int] | None:
    """Return the integers of a constant; None for any other tensor."""
    array = constants.readable(value) if value is not None else None
    return [int(entry) for entry in array.reshape(-1)] if array is not None else None
