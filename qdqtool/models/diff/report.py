"""The report of ``diff``: the keys of the JSON report are the attributes of these classes."""

from dataclasses import dataclass

from qdqtool.models.diff.parameters import Change
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class PairInfo:
    """A Q/DQ pair, or a Q or DQ alone, with the nodes that read it.

    Attributes:
        tensor: The float tensor that it quantizes, or the stored codes.
        graph: Scope of the readers; empty for the main graph.
        form: ``pair``, ``weight`` (in either storage form), ``DQ alone`` or ``Q alone``.
        type: Quantized type.
        granularity: ``per-tensor``, ``per-axis``, ``blocked`` or ``unknown``.
        scale_min: Least scale; None where it is not constant.
        scale_max: Greatest scale, likewise.
        readers: Nodes, with the number of the input, and outputs that read it.
    """

    tensor: str
    graph: str
    form: str
    type: str
    granularity: str
    scale_min: float | None
    scale_max: float | None
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangedPair:
    """A pair of the first model, with its differences in the second.

    Attributes:
        pair: The pair in the first model.
        changes: The differences.
    """

    pair: PairInfo
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class MovedPair:
    """A pair with the same constants a few nodes away.

    Attributes:
        before: The pair in the first model.
        after: The pair in the second model.
    """

    before: PairInfo
    after: PairInfo


@dataclass(frozen=True, slots=True)
class DisturbedReader:
    """A reader that gets other values than before, although the pairs themselves are all there.

    Attributes:
        reader: The node, with the number of the input, or the output.
        graph: Its scope; empty for the main graph.
        before: The pairs that its tensor went through in the first model, the nearest first.
        after: In the second; None where the reader is not found there.
    """

    reader: str
    graph: str
    before: tuple[PairInfo, ...]
    after: tuple[PairInfo, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffReport(Report):
    """The changes in Q/DQ from one model to another.

    Attributes:
        before: The first model.
        after: The second.
        pairs_before: Q/DQ pairs and single Q or DQ nodes that something reads, in the first model. A Q with many DQs
            is one.
        pairs_after: The same in the second model.
        preserved: Whether each pair of the first is in the second with the same constants, and serves the same readers
            without another pair that quantizes again. It may have moved across operators that only move values. False
            where the first has no pairs: there is nothing to judge.
        same: How many are equal in every way.
        removed: Pairs of the first that the second lacks.
        changed: Pairs that are different.
        moved: Pairs that stand elsewhere.
        added: Pairs that only the second has.
        disturbed: Readers behind pairs that moved across an operator that computes something, or behind an added pair
            that quantizes again.
        versions: Opset and IR versions that differ.
        unmatched: Nodes of the first, other than Q and DQ, that the second lacks.
    """

    before: str
    after: str
    pairs_before: int
    pairs_after: int
    preserved: bool
    same: int
    removed: tuple[PairInfo, ...]
    changed: tuple[ChangedPair, ...]
    moved: tuple[MovedPair, ...]
    added: tuple[PairInfo, ...]
    disturbed: tuple[DisturbedReader, ...]
    versions: tuple[Change, ...]
    unmatched: int
