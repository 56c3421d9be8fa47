"""What a lint rule reports: one finding per fault, with everything needed to act on it."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]
Effect = Literal["refused", "silent", "fallback", "advice"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault that one rule found at one place of one model.

    Attributes:
        code: Stable rule code, such as ``QP101``.
        name: Dotted rule name, such as ``parameters.scale-value``.
        severity: How bad it is for the target that was asked about.
        effect: What the target does: ``refused`` (will not load or build), ``silent`` (loads, and the numbers or the
            meaning are wrong), ``fallback`` (runs in float), ``advice``.
        message: One line: what is wrong, with the value found. Strings from the model are raw here; the renderer
            escapes them.
        node: Label of the node (its name, else ``OpType -> first output``), or None for findings about the model.
        op_type: Operator of that node.
        tensor: Name of the tensor that is at fault.
        graph: Scope of the node: empty for the main graph, else the path of the body or function.
        expected: The legal value or values, for display.
        found: The value found, for display.
        fixable: Whether ``--fix`` knows a remedy, which may need ``--unsafe-fixes``.
        context: The node between what it reads from and what reads it, in one line; empty for findings about the model.
        fingerprint: What the finding is recognized by in another run, from its rule, names and value.
        structure: The same from the operators around the node, for models whose names have changed.
    """

    code: str
    name: str
    severity: Severity
    effect: Effect
    message: str
    node: str | None = None
    op_type: str | None = None
    tensor: str | None = None
    graph: str = ""
    expected: str | None = None
    found: str | None = None
    fixable: bool = False
    context: str = ""
    fingerprint: str = ""
    structure: str = ""
