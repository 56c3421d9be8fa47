"""Normalizations, with statistics of the data or stored ones."""

from qdqtool.ops._channels import ChannelLayout
from qdqtool.ops._traits import Traits

TRAITS = {
    "BatchNormalization": Traits(
        keeps_channels=True, normalizes=ChannelLayout.FIRST, is_layer=True, fused_behind_products=True
    ),
    "GroupNormalization": Traits(is_layer=True),
    "InstanceNormalization": Traits(keeps_channels=True, normalizes=ChannelLayout.FIRST, is_layer=True),
    "LayerNormalization": Traits(keeps_channels=True, normalizes=ChannelLayout.LAST, is_layer=True),
    "LpNormalization": Traits(lacks_int8=True),
    "RMSNormalization": Traits(normalizes=ChannelLayout.LAST, is_layer=True),
}
