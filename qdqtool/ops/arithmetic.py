"""Arithmetic and comparison of several tensors, element by element."""

from qdqtool.ops._traits import Codes, Traits

TRAITS = {
    "Div": Traits(keeps_sign_of_all=True, keeps_channels=True, computes_indices=True, codes=Codes.SCALED),
    "Equal": Traits(computes_indices=True),
    "Greater": Traits(computes_indices=True),
    "Less": Traits(computes_indices=True),
    "Max": Traits(keeps_sign_of_all=True, computes_indices=True, codes=Codes.JOINED),
    "Min": Traits(keeps_sign_of_all=True, computes_indices=True, codes=Codes.JOINED),
    "Mul": Traits(keeps_sign_of_all=True, keeps_channels=True, computes_indices=True, codes=Codes.SCALED),
    "Sub": Traits(keeps_channels=True, computes_indices=True),
}
