"""A table of messages of TensorRT's parser and builder, with reason and hint in plain words; the first match is used.

The patterns match messages that TensorRT for RTX printed; ``tests/engines/tensorrt/data/refusals.json`` has an example
of each.
"""

from qdqtool.engines.tensorrt.known_refusals import (
    block_operators,
    operators,
    quantization,
    quantized_operators,
    shapes,
    structure,
    types,
)
from qdqtool.engines.tensorrt.known_refusals._known import BY_OPERATOR as BY_OPERATOR
from qdqtool.engines.tensorrt.known_refusals._known import KnownRefusal as KnownRefusal

KNOWN: tuple[KnownRefusal, ...] = (
    *block_operators.ENTRIES,
    *quantization.ENTRIES,
    *quantized_operators.ENTRIES,
    *structure.ENTRIES,
    *operators.ENTRIES,
    *shapes.ENTRIES,
    *types.ENTRIES,
)
