"""The findings of a rule in its examples, and the fixed examples."""

import inspect
from dataclasses import dataclass, replace

import onnx.parser

from qdqtool.errors import CapabilityError
from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.findings import Effect, Severity
from qdqtool.linting.policy import Policy
from qdqtool.linting.rules import EXAMPLE_HEADER, Example, Label, Rule, RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.io.onnx_text import onnx_text
from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model


@dataclass(frozen=True, slots=True)
class ExampleFinding:
    """One finding in an example.

    Attributes:
        targets: The targets for which the finding is reported.
        severity: Its severity.
        effect: The effect on these targets.
        message: Node, message and expectation, as ``validate`` prints them.
    """

    targets: tuple[str, ...]
    severity: Severity
    effect: Effect
    message: str


@dataclass(frozen=True, slots=True)
class ExampleFix:
    """The result of ``--fix`` on an example.

    Attributes:
        label: ``unsafe`` if one of the edits is unsafe, otherwise ``safe``.
        edits: A description of each edit.
        text: The fixed model as ONNX text, without the header if this is the usual header of examples.
    """

    label: Label
    edits: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class ExampleCard:
    """An example model.

    Attributes:
        title: What the example shows.
        text: The model as ONNX text.
        targets: The targets of the example; empty for all targets of the rule.
        findings: The findings of the rule.
        fixed: The result of ``--fix``; None if the rule has no fix for the example, or if ONNX Runtime is missing.
    """

    title: str
    text: str
    targets: tuple[str, ...]
    findings: tuple[ExampleFinding, ...] = ()
    fixed: ExampleFix | None = None


def card(example: Example) -> ExampleCard:
    """Return an example without findings and fix, for which no rule is run."""
    return ExampleCard(example.title, inspect.cleandoc(example.text), example.targets)


def judged_card(rule: Rule, example: Example) -> ExampleCard:
    """Return an example with the findings of its rule, and with the fixed model."""
    return replace(card(example), findings=_findings(rule, example), fixed=_fixed(rule, example))


def _findings(rule: Rule, example: Example) -> tuple[ExampleFinding, ...]:
    context = RuleContext(Model(example.model()))
    found: dict[tuple[Severity, Effect, str], list[str]] = {}
    for name in example.targets or targets.names():
        for finding in rule.run(context, targets.get(name).on(example.compute_capabilities)):
            where = f"{finding.node}: " if finding.node is not None else ""
            wanted = f"; expected {finding.expected}" if finding.expected is not None else ""
            key = finding.severity, finding.effect, f"{where}{finding.message}{wanted}"
            found.setdefault(key, []).append(name)
    return tuple(
        ExampleFinding(tuple(names), severity, effect, message) for (severity, effect, message), names in found.items()
    )


def _fixed(rule: Rule, example: Example) -> ExampleFix | None:
    policy = Policy(
        targets=example.targets or tuple(targets.names()),
        compute_capabilities=example.compute_capabilities,
        select=(rule.code,),
    )
    try:
        fixed = fix_model(Model(example.model()), FixRequest(policy=policy, unsafe=True))
    except CapabilityError:
        return None
    changes = fixed.report.changes
    if not changes:
        return None
    label: Label = "safe" if all(change.label == "safe" for change in changes) else "unsafe"
    edits = tuple(dict.fromkeys(change.description for change in changes))
    return ExampleFix(label, edits, _text(fixed.model))


def _text(model: Model) -> str:
    """Return a model as ONNX text, without the header that all examples have."""
    proto = inlined(model)
    assert proto is not None, "an example is far from 2 GB"
    text = onnx_text(proto)
    usual = onnx.parser.parse_model(f"{EXAMPLE_HEADER}g () => () {{}}")
    if proto.ir_version == usual.ir_version and list(proto.opset_import) == list(usual.opset_import):
        _, _, text = text.partition(">\n")
    return text
