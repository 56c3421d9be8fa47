"""Progress of a run over samples, as callers are told of it."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the samples done and their total."""
