"""What a report says about a cluster."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterUsed:
    """The workers that ran samples.

    Attributes:
        scheduler: The scheduler, as it was named.
        workers: How many workers ran samples.
        lost: Addresses of workers that left before the end. Their samples were run again.
        sent: How many workers the model was sent to; the others read it where this machine has it.
        other_processors: Processors of workers that differ from that of this machine; ranges may differ by rounding.
    """

    scheduler: str
    workers: int
    lost: tuple[str, ...]
    sent: int
    other_processors: tuple[str, ...]
