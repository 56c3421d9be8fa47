"""Reports on the repair of a model: every change, every refusal, and the effect on the outputs."""

from dataclasses import dataclass

from qdqtool.linting.report import Summary, TargetReport
from qdqtool.linting.rules import Label
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One fix that was applied.

    Attributes:
        code: Code of the rule, or name of the pattern.
        label: ``safe`` if a run proved that the outputs have the same bits, otherwise ``unsafe``.
        description: What the fix did, in one line.
        node: Label of the node, or None.
        graph: Scope of the node; empty for the main graph.
        proof: The evidence for the label.
    """

    code: str
    label: Label
    description: str
    node: str | None
    graph: str
    proof: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFix:
    """One fix that was not applied.

    Attributes:
        code: Code of the rule, or name of the pattern.
        label: ``safe`` or ``unsafe``, as the rule declares the fix.
        description: What the fix would have done.
        node: Label of the node, or None.
        graph: Scope of the node; empty for the main graph.
        reason: Why the fix was not applied.
    """

    code: str
    label: Label
    description: str
    node: str | None
    graph: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChange:
    """One output of the fixed model, compared with the unfixed model on the same feeds.

    ``before_db`` and ``after_db`` compare with the same model without Q/DQ (``qdqtool strip``).

    Attributes:
        name: Name of the output.
        exact: Whether every element has the same bits.
        equal: Whether every element is equal; zeros may differ in sign.
        other_shapes: Number of samples in which the shape changed. The numbers below leave these samples out.
        max_abs: Largest absolute difference.
        max_steps: Largest difference in steps of the DQ that makes the output; None without such a DQ with one scale.
        sqnr_db: Ratio of the unfixed output to its change, in dB; None if the outputs are equal.
        before_db: Signal to quantization noise before the fixes, in dB; None if it is unknown or there is no noise.
        after_db: Signal to quantization noise after the fixes, in dB; None as for ``before_db``.
    """

    name: str
    exact: bool
    equal: bool
    other_shapes: int
    max_abs: float
    max_steps: float | None
    sqnr_db: float | None
    before_db: float | None
    after_db: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """The repair of one model in memory.

    Attributes:
        changes: Every fix that was applied, in order.
        removed: Constants and nodes that were removed because no node reads them after a change.
        refused: Every fix that was not applied.
        outputs: The changes of the outputs; empty if nothing changed or ONNX Runtime cannot run both models.
        feeds: The feeds from which the outputs were computed, in words.
        unproven: Why ONNX Runtime cannot run the original model; None if it can.
    """

    changes: tuple[Change, ...] = ()
    removed: tuple[str, ...] = ()
    refused: tuple[RefusedFix, ...] = ()
    outputs: tuple[OutputChange, ...] = ()
    feeds: str = ""
    unproven: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedModel:
    """One model that was fixed.

    Attributes:
        path: File of the model.
        targets: The remaining findings for each target; empty for a model that cannot be read.
        error: Why the model cannot be read, or None.
        output: The file that was written, or None.
        external_data: The external data file of ``output``, or None.
        repaired: The changes; None for a model that cannot be read.
        diff: The changes as a unified diff of the graph, if ``--diff`` was given.
    """

    path: str
    targets: tuple[TargetReport, ...] = ()
    error: str | None = None
    output: str | None = None
    external_data: str | None = None
    repaired: Repaired | None = None
    diff: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FixReport(Report):
    """The result of ``validate --fix``.

    Attributes:
        models: One report for each model.
        summary: Counts of the remaining findings.
    """

    models: tuple[FixedModel, ...]
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizeReport(Report):
    """The result of ``normalize``.

    Attributes:
        model: The input file.
        output: The ``.onnx`` file that was written.
        external_data: The external data file of ``output``, or None.
        repaired: The rewrites, and their effect on the outputs.
    """

    model: str
    output: str
    external_data: str | None
    repaired: Repaired

    @property
    def existing(self) -> str | None:
        """The value of ``quantize --existing`` that fits the result; None if no data was quantized at run time.

        ``keep``, or ``replace`` if weights have zero points that no kernel of TensorRT accepts.
        """
        if not any(change.code in {"dynamic-pair", "dynamic-product"} for change in self.repaired.changes):
            return None
        return "replace" if any(refused.code == "signed-codes" for refused in self.repaired.refused) else "keep"
