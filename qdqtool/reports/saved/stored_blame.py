"""The layers that make most of the noise, in JSON reports of ``quantize`` and ``check``, as types."""

from qdqtool.reports.saved.stored_parts import Stored


class StoredBlamedLayer(Stored, frozen=True, kw_only=True):
    """One layer: its share of the noise, of 1, and patterns for ``--nodes-to-exclude``."""

    node: str
    noise_share: float
    exclude: tuple[str, ...]


class StoredBlame(Stored, frozen=True, kw_only=True):
    """What makes the noise at the worst output; ``problem`` says why nothing was measured."""

    output: str
    layers: tuple[StoredBlamedLayer, ...]
    problem: str
