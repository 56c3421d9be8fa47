"""Divide the samples of a calibration into shards."""

from dataclasses import dataclass

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.quantization.ranges.types import CHUNK, Part


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several runs that share the samples of a calibration.

    Attributes:
        number: Its number, from 1.
        of: Number of shards.

    Raises:
        ArgumentError: There is no such shard.
    """

    number: int
    of: int

    def __post_init__(self) -> None:
        if self.of < 1:
            raise ArgumentError(f"shard {self.number}/{self.of} does not exist: there is at least one shard")
        if not 1 <= self.number <= self.of:
            raise ArgumentError(f"shard {self.number}/{self.of} does not exist; shards count from 1 to {self.of}")

    def part(self, samples: int) -> Part:
        """Return its samples: whole chunks, as many as the other shards have, or one more or less.

        Raises:
            UsageError: There are more shards than chunks.
        """
        chunks = -(-samples // CHUNK)
        if self.of > chunks:
            raise UsageError(
                f"{samples} samples cannot be cut into {self.of} shards: a shard has at least one chunk of {CHUNK}",
                hint=f"the most is {chunks}: `--shard 1/{chunks}`" if chunks > 1 else "leave the option out",
            )
        start = chunks * (self.number - 1) // self.of * CHUNK
        return Part(start, min(chunks * self.number // self.of * CHUNK, samples), start)


def parse_shard(text: str, option: str) -> Shard:
    """Parse ``I/N`` to a shard.

    Raises:
        UsageError: The text has another form, or there is no such shard.
    """
    number, _, of = text.partition("/")
    digits = text.isascii() and number.isdecimal() and of.isdecimal() and len(text) < 16
    if not digits:
        raise UsageError(f"{option} is '{text}'; it must be I/N, such as 2/4 for the second of four")
    return Shard(int(number), int(of))
