"""Refusals of TensorRT's own operators that quantize in blocks (``TRT_…``)."""

from functools import partial

from qdqtool.engines.tensorrt.known_refusals._known import known

_blocks = partial(known, rules="QT416")
ENTRIES = (
    _blocks(
        r"given block size does not divide the input extent in axis (\d+?)\s?[Ii]nput extent = (\d+), "
        r"block size = (\d+)",
        "its blocks of {2} do not divide axis {0}, which has {1} elements",
        hint="pad the axis to a multiple of the block size, or leave the node out",
    ),
    _blocks(r"Only block_size == (\d+) is supported", "its block size is not {0}", hint="set block_size to {0}"),
    _blocks(
        r"input tensor must be 2D or 3D",
        "its input has neither two nor three dimensions",
        hint="put a Reshape to two dimensions in front of it",
    ),
    _blocks(
        r"input extent in the blocked axis should be known at build time\. axis = (-?\d+)",
        "its input has an open dimension along axis {0}, which it cuts into blocks",
        hint="fix the dimension with --input-shapes",
    ),
    _blocks(
        r"Scale input must be a scalar",
        "it has more than one scale of scales; TensorRT takes one scalar",
        hint="store one scalar",
    ),
    _blocks(r"scale_type must be FP8", "its scales are not float8e4m3fn", hint="set scale_type to 17, float8e4m3fn"),
    _blocks(
        r"name=(?P<node>\S+)\s+Error is:\s+Blockwise quantization requires output type",
        "in blocks of two dimensions it must quantize to int8 or float8e4m3fn",
        hint="quantize to int8 or float8e4m3fn, or in blocks of one dimension",
    ),
    _blocks(
        r"kNDBLOCKED with block shape \[([^\]]*)\] must have the same number of dimensions as the input - (\d+)",
        "its block_shape [{0}] must have the {1} dimensions of its input",
        hint="give block_shape a size for every dimension of the input",
    ),
    _blocks(
        r"dataOutput has type (\w+) but must have type FP8 or FP4",
        "it quantizes to {0} with scales made at run time; TensorRT supports this only for float8e4m3fn and float4e2m1",
        hint="quantize to one of these, or with constant scales",
    ),
    _blocks(
        r"with `scaleOutput` kFP8 requires two inputs",
        "its scales are float8e4m3fn, and the scale of these scales is missing",
        hint="give that scale as the second input",
    ),
    _blocks(
        r"Scale input must be an initializer",
        "its scale of scales is computed while the model runs; TensorRT needs it when it builds",
        hint="store it as an initializer",
    ),
)
