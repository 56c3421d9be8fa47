"""The findings of lint rules: one finding for each fault, with all facts that are needed to fix it."""

from dataclasses import dataclass
from typing import Literal

ParserStatus = Literal["asked", "stopped", "absent", "off", "timed out"]
"""Whether TensorRT's parser was asked about a model."""


Severity = Literal["error", "warning", "info"]
Effect = Literal["refused", "silent", "fallback", "advice"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


TOLERANCE = 1.1
"""Factor by which the degree of a known fault may grow. Training a model again changes scales a little."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How bad a fault is, in numbers.

    A known fault stays known until it gets worse, since numbers change whenever a model is trained or calibrated again.

    Attributes:
        kind: The kind of fault, without the numbers below. Findings with different kinds are different findings.
        count: Number of channels, elements or tensors at fault.
        degree: Size of the worst fault, in a unit that the rule defines; finite, 0 if the fault has no size.
    """

    kind: str
    count: int = 1
    degree: float = 0.0

    def is_worse_than(self, known: "Extent") -> bool:
        """Return whether this count is larger than in ``known``, or this degree is more than a tenth larger."""
        return self.count > known.count or self.degree > known.degree * TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault that one rule found at one place of one model.

    Attributes:
        code: Stable rule code, such as ``QP101``.
        name: Dotted rule name, such as ``parameters.scale-value``.
        severity: How bad the fault is for the target.
        effect: What the target does with the fault. ``refused``: it does not load or build the model. ``silent``: it
            loads the model, but the numbers or their meaning are wrong. ``fallback``: it runs in float. ``advice``:
            there is a better form.
        message: One line: what is wrong, with the value found. Strings from the model are not escaped here.
        node: Label of the node (its name, or ``OpType -> first output``); None for findings about the whole model.
        op_type: Operator of that node.
        tensor: Name of the tensor that is at fault.
        graph: Scope of the node: empty for the main graph, otherwise the path of the subgraph or function.
        expected: The legal value or values, for display.
        found: The value found, for display.
        extent: How bad the fault is in numbers; None for faults without numbers.
        fixable: Whether ``--fix`` has a fix for it, perhaps only with ``--unsafe-fixes``.
        safe_fix: Whether a fix should leave the numbers unchanged; ``--fix`` applies it if a run proves this.
        cause: The common cause if findings like this repeat in many places, such as ``asymmetric activations``; empty
            if there is none.
        context: The node with its producers and consumers, in one line; empty for findings about the whole model.
        fingerprint: Identifies the finding in another run, by rule, effect, names and value. If there is an extent, its
            kind replaces the value.
        structure: Like ``fingerprint``, but with the operators around the node instead of names, since names may
            change.
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
