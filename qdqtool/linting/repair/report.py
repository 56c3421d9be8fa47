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
        label: ``safe`` when it was proven that the outputs stay the same to the bit, else ``unsafe``.
        description: What it did, in one line.
        node: Label of the node, or None.
        graph: Its scope; empty for the main graph.
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
        label: The label of its offer.
        description: What it would have done.
        node: Label of the node, or None.
        graph: Its scope; empty for the main graph.
        reason: Why it was not applied.
    """

    code: str
    label: Label
    description: str
    node: str | None
    graph: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChange:
    """One output, fixed against unfixed, on the same feeds.

    The ratios before and after are taken against the same model without Q/DQ (``qdqtool strip``).

    Attributes:
        name: The output.
        exact: Whether every element has the same bits.
        equal: Whether every element is equal; zeros may differ in sign.
        other_shapes: Samples in which the shape changed. The numbers below are those of the other samples.
        max_abs: Largest absolute difference.
        max_steps: The same in steps of the DQ that produces the output; None where no DQ with one constant scale does.
        sqnr_db: Signal of the unfixed output over the change, in dB; None where they are equal.
        before_db: Signal to quantization noise before, in dB; None where it is unknown or there is no noise.
        after_db: The same afterwards.
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
        removed: Constants and nodes that were removed because, after a change, nothing reads them.
        refused: Every fix that was not applied.
        outputs: The outputs afterwards; empty where nothing changed or ONNX Runtime cannot run both models.
        feeds: The feeds from which the outputs were computed, in words.
        unproven: Why ONNX Runtime cannot run the model as it was; None where it can.
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
        path: Its file.
        targets: The findings that are left, for each target; empty for a model that cannot be read.
        error: Why it cannot be read, or None.
        output: The file that was written; None where none was.
        external_data: The data file beside it, if any.
        repaired: What was done; None for a model that cannot be read.
        diff: The changes as a unified diff of the graph, where one was asked for.
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
        summary: Counts of the findings that are left.
    """

    models: tuple[FixedModel, ...]
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizeReport(Report):
    """The result of ``normalize``.

    Attributes:
        model: The input.
        output: The ``.onnx`` file written.
        external_data: The data file beside it, if any.
        repaired: The rewrites, and their effect on the outputs.
    """

    model: str
    output: str
    external_data: str | None
    repaired: Repaired

    @property
    def existing(self) -> str | None:
        """How ``quantize`` gives pairs to data that is no longer quantized at run time; None where there is none.

        ``keep``, or ``replace`` where weights have zero points that no kernel of TensorRT accepts.
        """
        if not any(change.code in {"dynamic-pair", "dynamic-product"} for change in self.repaired.changes):
            return None
        return "replace" if any(refused.code == "signed-codes" for refused in self.repaired.refused) else "keep"
