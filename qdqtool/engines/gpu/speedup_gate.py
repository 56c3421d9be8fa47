"""The gate ``--speedup``: how many times as fast an engine must be compared with another."""

import re
from dataclasses import dataclass

from qdqtool.errors import UsageError

_SYNTAX = re.compile(r">=\s*(?P<ratio>\d+(?:\.\d+)?)\s*x")


@dataclass(frozen=True, slots=True)
class SpeedupGate:
    """The engine must be at least ``ratio`` times as fast as the other engine.

    Raises:
        UsageError: The ratio is not positive and finite.
    """

    ratio: float

    def __post_init__(self) -> None:
        if not 0 < self.ratio < float("inf"):
            raise UsageError(
                f"the speedup is {self.ratio:g}; it must be positive and finite",
                hint="write it as `--speedup '>=1.2x'`",
            )

    def __str__(self) -> str:
        return f">={self.ratio:g}x"


def parse_speedup(text: str) -> SpeedupGate:
    """Parse ``>=1.2x`` to a gate.

    Raises:
        UsageError: The text has another form, or the ratio is not positive and finite.
    """
    match = _SYNTAX.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"'{text}' is not a speedup", hint="write it as `--speedup '>=1.2x'`")
    return SpeedupGate(float(match["ratio"]))
