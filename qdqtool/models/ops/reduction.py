"""Operators that compute one or a few values from all values along some axes."""

from qdqtool.models.ops._span import same_span
from qdqtool.models.ops._traits import CodePath, Traits, over_axes

TRAITS = {
    "ArgMax": Traits(keeps_order_only=True),
    "ArgMin": Traits(keeps_order_only=True),
    "CumSum": Traits(lacks_int8=True),
    "ReduceMax": Traits(
        span=same_span,
        keeps_order_only=True,
        keeps_sign=True,
        keeps_channels=True,
        factor_rule=over_axes,
        codes=CodePath.SELECTED,
    ),
    "ReduceMean": Traits(span=same_span, keeps_sign=True, keeps_channels=True, factor_rule=over_axes, lacks_int8=True),
    "ReduceMin": Traits(span=same_span, keeps_order_only=True, codes=CodePath.SELECTED),
    "TopK": Traits(keeps_order_only=True, keeps_magnitude=True, index_inputs=(1,)),
}
