"""The report of ``diff``: the keys of the JSON report are the attributes of these classes."""

from dataclasses import dataclass

from qdqtool.models.diff.parameters import Change
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class PairInfo:
    """A Q/DQ pair, or a single Q or DQ, with its readers.

    Attributes:
        tensor: The quantized float tensor, or the stored codes.
        graph: Scope of the readers; empty for the main graph.
        form: ``pair``, ``weight`` (in either storage form), ``DQ alone`` or ``Q alone``.
        type: Quantized type.
        granularity: ``per-tensor``, ``per-axis``, ``blocked`` or ``unknown``.
        scale_min: Smallest scale; None if the scale is not constant.
        scale_max: Largest scale; None if the scale is not constant.
        readers: The nodes (with the index of the input) and outputs that read it.
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
    """A pair of the first model that is different in the second.

    Attributes:
        pair: The pair in the first model.
        changes: The differences.
    """

    pair: PairInfo
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class MovedPair:
    """A pair that is a few nodes away in the second model, with the same constants.

    Attributes:
        before: The pair in the first model.
        after: The pair in the second model.
    """

    before: PairInfo
    after: PairInfo


@dataclass(frozen=True, slots=True)
class DisturbedReader:
    """A reader that gets different values although all its pairs still exist.

    Attributes:
        reader: The node (with the index of the input) or output.
        graph: Scope of the reader; empty for the main graph.
        before: The pairs that its tensor passed in the first model, the nearest first.
        after: The pairs in the second model; None if the reader is not found there.
    """

    reader: str
    graph: str
    before: tuple[PairInfo, ...]
    after: tuple[PairInfo, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffReport(Report):
    """The differences in Q/DQ between two models.

    Attributes:
        before: The first model.
        after: The second model.
        pairs_before: Number of Q/DQ pairs and single Q or DQ nodes with readers in the first model. A Q with several DQ
            nodes counts once.
        pairs_after: The same number for the second model.
        preserved: Whether the second model has each pair of the first, with the same constants and readers, and
            quantizes nothing a second time. A pair may have moved through operators that only move values. False if the
            first model has no pairs, because there is nothing to compare.
        same: Number of pairs that are completely equal.
        removed: Pairs of the first model that the second lacks.
        changed: Pairs that differ.
        moved: Pairs that are at other positions.
        added: Pairs that only the second model has.
        disturbed: Readers whose pair moved across an operator that computes something, or that have an added pair,
            which quantizes again.
        versions: Opset and IR versions that differ.
        unmatched: Number of nodes of the first model, other than Q and DQ, that the second lacks.
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
