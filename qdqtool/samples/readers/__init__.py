"""Readers of data files, one kind a module.

A module has ``ACCEPTS`` (for the message that lists what is legal), ``accepts(path) -> bool`` and ``read``, a
:class:`Reader`; or ``read_with``, an :class:`OptionReader`, where files do not hold arrays: then ``HOLDS`` says what
they hold, and ``USES`` which attributes of :class:`ReadOptions` have a use. Readers give samples the shape that one run
takes. Types, shapes and values are checked afterwards.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qdqtool.samples.options import ReadOptions
from qdqtool.samples.signature import InputSpec

if TYPE_CHECKING:
    from qdqtool.samples.sample import Samples

Reader = Callable[[Path, Sequence[InputSpec]], "Samples"]
OptionReader = Callable[[Path, Sequence[InputSpec], ReadOptions], "Samples"]
