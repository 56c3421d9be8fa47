"""Mathematical functions of single values."""

from qdqtool.ops._traits import Codes, Traits

TRAITS = {
    "Abs": Traits(nonnegative=True, codes=Codes.POINTWISE),
    "Ceil": Traits(computes_indices=True),
    "Exp": Traits(nonnegative=True, lacks_int8=True),
    "Floor": Traits(computes_indices=True, lacks_int8=True),
    "Log": Traits(lacks_int8=True),
    "Neg": Traits(codes=Codes.POINTWISE),
    "Pow": Traits(lacks_int8=True),
    "Round": Traits(computes_indices=True, lacks_int8=True),
    "Sin": Traits(bound=1.0, lacks_int8=True),
    "Sqrt": Traits(nonnegative=True, lacks_int8=True),
}
