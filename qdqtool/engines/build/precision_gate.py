"""The precision gate: the share of the nodes planned for a type that must run in that type."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from qdqtool.engines.build.report import GateResult
from qdqtool.engines.report import NodePrecision
from qdqtool.engines.tensorrt.planned_types import WEIGHT_ONLY
from qdqtool.errors import UsageError
from qdqtool.numerics import formats
from qdqtool.quantization.planning import modes

_SYNTAX = re.compile(r"(?P<type>[A-Za-z0-9]+)(?P<tail>-weight-only)?\s*>=\s*(?P<percent>\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True)
class PrecisionGate:
    """At least ``percent`` of the nodes planned for ``type`` must run as planned.

    Weight-only nodes count if no quantize mode has activations of this type: they count for int4, but not for int8.
    """

    type: str
    percent: float

    def __str__(self) -> str:
        return f"{self.type}>={self.percent:g}%"

    def counts(self, planned: str) -> bool:
        """Return whether the gate counts nodes that are planned for a type."""
        alone = self.type not in {modes.get(name).activations for name in modes.names()}
        return planned == self.type or (alone and planned == f"{self.type}{WEIGHT_ONLY}")


def parse_gate(text: str) -> PrecisionGate:
    """Parse a gate such as ``int8>=95%``; the type is a format, a quantize mode, or ONNX's name of a type.

    Raises:
        UsageError: The text has another form, or the type is unknown.
    """
    match = _SYNTAX.fullmatch(text.strip())
    if match is None or float(match["percent"]) > 100:
        raise UsageError(f"'{text}' is no precision gate", hint="write it as int8>=95%")
    return PrecisionGate(formats.get(match["type"]).name + (match["tail"] or ""), float(match["percent"]))


def planned_counts(nodes: Sequence[NodePrecision]) -> dict[str, int]:
    """Count the nodes planned for each type."""
    return dict(sorted(Counter(node.planned for node in nodes).items()))


def achieved_counts(nodes: Sequence[NodePrecision]) -> dict[str, int]:
    """Count, for each planned type, the nodes that run in it; the count may be 0."""
    achieved = Counter(node.planned for node in nodes if node.actual == node.planned)
    return {kind: achieved[kind] for kind in planned_counts(nodes)}


def gate_result(gate: PrecisionGate, nodes: Sequence[NodePrecision]) -> GateResult:
    """Judge whether the engine meets a gate. A model with no node that is planned for the type misses the gate."""
    planned = sum(count for kind, count in planned_counts(nodes).items() if gate.counts(kind))
    if not planned:
        there = ", ".join(planned_counts(nodes)) or "none"
        return GateResult(gate=str(gate), passed=False, found=f"no node is planned for {gate.type}; there are: {there}")
    achieved = sum(count for kind, count in achieved_counts(nodes).items() if gate.counts(kind))
    share = 100 * achieved / planned
    return GateResult(
        gate=str(gate), passed=share >= gate.percent, found=f"{achieved} of {planned} nodes ({share:.1f} %)"
    )
