"""What a lint rule reports: one finding per fault, with everything needed to act on it."""

from dataclasses import dataclass
from typing import Literal

ParserStatus = Literal["asked", "absent", "off", "timed out"]
"""Whether the parser of a builder was asked about a model."""


Severity = Literal["error", "warning", "info"]
Effect = Literal["refused", "silent", "fallback", "advice"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


TOLERANCE = 1.1
"""How much the degree of a fault may grow before the fault counts as worse: training a model again moves scales."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How bad a fault is, for faults whose value is a number.

    A known fault stays known as long as it does not get worse: scales and weights change whenever a model is trained or
    calibrated again.

    Attributes:
        kind: The kind of fault, without the numbers below; another kind is another finding.
        count: Number of channels, elements or tensors at fault.
        degree: How far the worst of them is off, in a unit of the rule; finite, 0 where a fault has no degrees.
    """

    kind: str
    count: int = 1
    degree: float = 0.0

    def is_worse_than(self, known: "Extent") -> bool:
        """Return whether more is at fault than in ``known``, or the worst is off by over a tenth more."""
        return self.count > known.count or self.degree > known.degree * TOLERANCE


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
        extent: How bad it is, for faults of degrees; None for faults that are there or not.
        fixable: Whether ``--fix`` knows a remedy, which may need ``--unsafe-fixes``.
        safe_fix: Whether a remedy leaves the numbers as they are; ``--fix`` makes it where a run proves that.
        cause: What was done in many places where findings like this repeat, such as ``asymmetric activations``; empty
            for what has no common cause.
        context: The node between what it reads from and what reads it, in one line; empty for findings about the model.
        fingerprint: What the finding is recognized by in another run, from its rule, effect, names and value; where it
            has an extent, the kind counts as the value.
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
    extent: Extent | None = None
    fixable: bool = False
    safe_fix: bool = False
    cause: str = ""
    context: str = ""
    fingerprint: str = ""
    structure: str = ""
