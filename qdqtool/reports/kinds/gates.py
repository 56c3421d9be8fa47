"""Rows and blocks of a gate of ``check`` or ``build``."""

from qdqtool.accuracy.checking.report import GateResult
from qdqtool.engines.build.report import GateResult as BuildGate
from qdqtool.reports.blocks import Cell, Column, text

COLUMNS = (
    Column("Gate"),
    Column("State", short=""),
    Column("Requires", prose=True, spare=1),
    Column("Found", prose=True),
)

_FAILED = Cell("FAILED", "0", "failed", short="FAIL")
_DOUBTFUL = Cell("warning", "1", "warning", short="WARN")
_PASSED = Cell("passed", "2", "passed", short="PASS")


def of_check(gate: GateResult) -> tuple[Cell, ...]:
    """Return a row for a gate of ``check``; on a terminal, failures and warnings have separate lines."""
    state = _FAILED if not gate.passed else _DOUBTFUL if gate.warnings else _PASSED
    found = "; ".join((gate.detail, *gate.failures, *gate.warnings))
    return text(gate.name), state, text(gate.requires), Cell(found, found.casefold(), short=gate.detail)


def of_build(gate: BuildGate) -> tuple[Cell, ...]:
    """Return a row for a gate of ``build``."""
    state = _PASSED if gate.passed else _FAILED
    return text(gate.gate), state, text("precision of the engine"), text(gate.found)
