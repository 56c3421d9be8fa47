"""Activation functions of single values."""

from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.view import NodeView
from qdqtool.ops._channels import ChannelLayout
from qdqtool.ops._factors import pointwise
from qdqtool.ops._traits import Traits


def _constant_slope(node: NodeView, layout: ChannelLayout, constants: Constants) -> ChannelLayout | None:
    """Return the same layout for a constant slope: a PRelu commutes with positive factors like a LeakyRelu."""
    slope = node.input(1)
    return layout if slope is not None and constants.is_constant(slope) else None


def _starts_at_zero(node: NodeView, constants: Constants) -> bool:
    """Return whether the lower bound of a Clip is a constant that is not negative."""
    bound = node.input(1)
    if bound is None:
        # An attribute below opset 11.
        return float(node.attribute("min", -1.0)) >= 0
    found = constants.array(bound) if constants.is_constant(bound) else None
    return found is not None and bool((found.astype("float64") >= 0).all())


TRAITS = {
    "Clip": Traits(keeps_channels=True, nonnegative_if=_starts_at_zero, fused_behind_products=True),
    "Elu": Traits(keeps_channels=True, lacks_int8=True),
    "Erf": Traits(bound=1.0, keeps_channels=True),
    "Gelu": Traits(keeps_channels=True, lacks_int8=True),
    "HardSigmoid": Traits(nonnegative=True, bound=1.0, keeps_channels=True),
    "HardSwish": Traits(keeps_channels=True),
    "LeakyRelu": Traits(keeps_channels=True, factor_rule=pointwise, fused_behind_products=True),
    "PRelu": Traits(keeps_channels=True, factor_rule=_constant_slope),
    "Relu": Traits(
        nonnegative=True, keeps_magnitude=True, keeps_channels=True, factor_rule=pointwise, fused_behind_products=True
    ),
    "Selu": Traits(lacks_int8=True),
    "Sigmoid": Traits(nonnegative=True, bound=1.0, keeps_channels=True, is_layer=True, lacks_int8=True),
    "Softplus": Traits(nonnegative=True, lacks_int8=True),
    "Swish": Traits(keeps_channels=True),
    "Tanh": Traits(bound=1.0, keeps_channels=True, is_layer=True, lacks_int8=True),
}
