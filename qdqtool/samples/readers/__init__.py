"""Readers of data files; each module reads one kind of file.

A module has ``ACCEPTS`` (the name of its files in messages), ``accepts(path) -> bool`` and ``read``, a :class:`Reader`.
For files that do not hold arrays, ``read_with``, an :class:`OptionReader`, replaces ``read``. Then ``HOLDS`` names the
content, and ``USES`` the attributes of :class:`ReadOptions` that apply. Readers give samples the shape of one run.
Types, shapes and values are checked afterwards.
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
