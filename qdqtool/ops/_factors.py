"""Rules that several operators share: where channels lie behind them, if a positive factor for each may be moved past.

Each takes the node, where the channels lie in front of it, and the folded constants of the model.
"""

from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.view import NodeView, Value
from qdqtool.ops._channels import ChannelLayout


def pointwise(node: NodeView, layout: ChannelLayout, constants: Constants) -> ChannelLayout | None:
    """Each value alone becomes one value: channels stay where they are."""
    del node, constants
    return layout


def over_space(node: NodeView, layout: ChannelLayout, constants: Constants) -> ChannelLayout | None:
    """Windows over the axes behind the channels."""
    del node, constants
    return layout if layout is ChannelLayout.FIRST else None


def over_axes(node: NodeView, layout: ChannelLayout, constants: Constants) -> ChannelLayout | None:
    """Axes that are stored in an attribute or at input 1, and all lie behind the channels."""
    axes = node.attribute("axes") or stored_integers(node.input(1), constants)
    past = axes is not None and len(axes) > 0 and all(axis > 1 for axis in axes)
    return layout if past and layout is ChannelLayout.FIRST else None


def stored_integers(value: Value | None, constants: Constants) -> list[int] | None:
    """The integers of a constant; None for anything else."""
    array = constants.array(value) if value is not None else None
    return [int(entry) for entry in array.reshape(-1)] if array is not None else None
