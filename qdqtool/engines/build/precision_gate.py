"""The precision gate: the share of the nodes planned for a type, or of all work, that must run in that type."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from qdqtool.engines.build.report import GateResult
from qdqtool.engines.report import NodePrecision
from qdqtool.engines.tensorrt.planned_types import WEIGHT_ONLY
from qdqtool.errors import UsageError, plural
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import display
from qdqtool.numerics import formats
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.placement.propose import quantized_products
from qdqtool.samples.calibration_note import read_note

_SYNTAX = re.compile(
    r"(?P<type>[A-Za-z0-9]+)(?P<tail>-weight-only)?\s*>=\s*(?P<percent>\d+(?:\.\d+)?)\s*%(?P<work>\s+of\s+work)?"
)


@dataclass(frozen=True, slots=True)
class PrecisionGate:
    """At least ``percent`` of the nodes planned for ``type`` must run as planned.

    With ``of_work``, ``percent`` is a share of the multiply-accumulates of all nodes that multiply. Weight-only nodes
    count if no quantize mode has activations of this type: they count for int4, but not for int8.
    """

    type: str
    percent: float
    of_work: bool = False

    def __str__(self) -> str:
        return f"{self.type}>={self.percent:g}%{' of work' * self.of_work}"

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
    return PrecisionGate(
        formats.get(match["type"]).name + (match["tail"] or ""), float(match["percent"]), match["work"] is not None
    )


def planned_counts(nodes: Sequence[NodePrecision]) -> dict[str, int]:
    """Count the nodes planned for each type."""
    return dict(sorted(Counter(node.planned for node in nodes).items()))


def achieved_counts(nodes: Sequence[NodePrecision]) -> dict[str, int]:
    """Count, for each planned type, the nodes that run in it; the count may be 0."""
    achieved = Counter(node.planned for node in nodes if node.actual == node.planned)
    return {kind: achieved[kind] for kind in planned_counts(nodes)}


def lost_nodes(model: Model) -> int:
    """Return how many nodes that ``quantize`` quantized are float now; 0 if all of them are, as after ``strip``."""
    note, found = read_note(model), len(quantized_products(ModelIndex.of(model)))
    recorded = note.quantized_nodes if note is not None else None
    return max(recorded - found, 0) if recorded is not None and found else 0


def gate_result(
    gate: PrecisionGate, nodes: Sequence[NodePrecision], lost: int = 0, work: Iterable[tuple[NodeView, int | None]] = ()
) -> GateResult:
    """Judge whether the engine meets a gate. A model with no node that is planned for the type misses the gate.

    Args:
        gate: The gate.
        nodes: The quantized nodes.
        lost: Number of nodes that ``quantize`` quantized and that are float now; they count as planned.
        work: The nodes that multiply, with their multiply-accumulates; read only for a gate on work.
    """
    if gate.of_work:
        return _work_result(gate, nodes, {(node.label, display(node.scope.path)): macs for node, macs in work})
    planned = sum(count for kind, count in planned_counts(nodes).items() if gate.counts(kind))
    if not planned:
        types = ", ".join(planned_counts(nodes)) or "none"
        return GateResult(gate=str(gate), passed=False, found=f"no node is planned for {gate.type}; planned: {types}")
    achieved = sum(count for kind, count in achieved_counts(nodes).items() if gate.counts(kind))
    share = 100 * achieved / (planned + lost)
    found = f"{achieved} of {planned + lost} nodes ({share:.1f} %)"
    found += f"; the model has lost the Q/DQ of {lost}" if lost else ""
    return GateResult(gate=str(gate), passed=share >= gate.percent, found=found)


def _work_result(
    gate: PrecisionGate, nodes: Sequence[NodePrecision], work: Mapping[tuple[str, str], int | None]
) -> GateResult:
    known = [macs for macs in work.values() if macs is not None]
    if len(known) < len(work) or not sum(known):
        missing = plural(len(work) - len(known), "node")
        return GateResult(gate=str(gate), passed=False, found=f"not known: the multiply-accumulates of {missing}")
    kept = (node for node in nodes if node.actual == node.planned and gate.counts(node.planned))
    share = 100 * sum(work.get((node.name, node.graph)) or 0 for node in kept) / sum(known)
    found = f"{share:.1f} % of the multiply-accumulates of {plural(len(known), 'node')}"
    return GateResult(gate=str(gate), passed=share >= gate.percent, found=found)
