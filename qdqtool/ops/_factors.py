"""Factor rules that several operators share: the channel axis behind a node that commutes with channel factors.

Each rule takes the node, the channel layout in front of it, and the folded constants of the model.
"""

from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.view import NodeView, Value
from qdqtool.ops._channels import ChannelLayout


def pointwise(node: NodeView, layout: ChannelLayout, constants: Constants) -> ChannelLayout | None:
    """Return the same layout: the operator works on each value alone."""
    del node, constants
    return layout


def over_space(node: NodeView, layout: ChannelLayout, constants: Constants) -> ChannelLayout | None:
    """Return the same layout for windows over the axes behind the channels."""
    del node, constants
    return layout if layout is ChannelLayout.FIRST else None


def over_axes(node: NodeView, layout: ChannelLayout, constants: Constants) -> ChannelLayout | None:
    """Return the same layout for stored axes, in an attribute or at input 1, that all lie behind the channels."""
    axes = node.attribute("axes") or stored_integers(node.input(1), constants)
    past = axes is not None and len(axes) > 0 and all(axis > 1 for axis in axes)
    return layout if past and layout is ChannelLayout.FIRST else None


def stored_integers(value: Value | None, constants: Constants) -> list[int] | None:
    """Return the integers of a constant; None for anything else."""
    array = constants.array(value) if value is not None else None
    return [int(entry) for entry in array.reshape(-1)] if array is not None else None
