"""The policy of ``validate`` (targets, rules and suppressions), and the linter that applies it to a model."""

import fnmatch
import functools
import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from qdqtool.errors import ArgumentError, ModelError
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding, Severity
from qdqtool.linting.parser_answer import PARSER_TARGET, ParserAnswer, is_explained
from qdqtool.linting.report import Ignored, ModelReport, TargetReport, target_report, with_findings
from qdqtool.linting.rules import Fault, Rule, RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.index.structure import Neighbourhoods, context, digest
from qdqtool.models.graph.index.suppressions import Suppression, read_suppressions
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.model_file import QUICK_BYTES, describe_file
from qdqtool.models.graph.model import Model
from qdqtool.models.targets import Target

# Numbered names from exporters, such as onnx::Conv_123, %42, val_7, add_3, or a plain number. One inserted node
# renumbers all later nodes.
_COUNTED = re.compile(r"(?:^|(?<=[/.:]))(?:onnx::\w+_|%|(?:val|value|tensor|node|add|mul)_|)\d+(?=$|[/_.:])")


class Fingerprints:
    """Computes the fingerprints and the context of findings, once for each node of a model.

    Attributes:
        context: Function that describes a node with its producers and consumers in one line.
    """

    def __init__(self) -> None:
        self._around = functools.cache(Neighbourhoods().around)
        self.context = functools.cache(context)

    def of(self, finding: Finding, node: NodeView | None) -> tuple[str, str]:
        """Return the fingerprint by names, and the fingerprint by structure alone.

        Both depend on the rule, the effect and the value found. If the finding has an extent, its kind replaces the
        value: :mod:`qdqtool.linting.baseline` compares the numbers. The first fingerprint adds the names of scope, node
        and tensor. Numbered names from exporters (``onnx::Conv_123``, ``val_7``, ``42``) are replaced by the operators
        around the node. The second fingerprint adds only these operators. Findings may share both.
        """
        value = finding.extent.kind if finding.extent is not None else finding.found or ""
        salient = (finding.code, finding.effect, value)
        if node is None:
            # A finding about the model as a whole has no node, and so no structure.
            return digest(*salient, finding.tensor or ""), digest(*salient)
        around = self._around(node)
        names = (_canonical(name, around) for name in (finding.graph, _name(node), finding.tensor or ""))
        return digest(*salient, *names), digest(*salient, around)


def _name(node: NodeView) -> str:
    return node.proto.name or next(filter(None, node.proto.output), "")


def _canonical(name: str, around: str) -> str:
    return _COUNTED.sub(f"<{around}>", name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Targets, rules and severities to apply.

    Attributes:
        targets: Target ids.
        compute_capabilities: GPUs for which TensorRT targets are checked, such as 86 for 8.6; empty to check no GPU.
        select: Prefixes of the rule codes to apply (``QS``, ``QP101``, ``ALL``); None for all rules.
        extend_select: Further prefixes to apply.
        ignore: Prefixes of rule codes to leave out.
        severity: Severity by prefix, instead of the severity of the rule. The prefix that matches the fewest rules
            wins.
        per_model_ignores: Prefixes to leave out, by glob over model paths.
        per_node_ignores: Prefixes whose findings are suppressed, by glob over node names.
        parser: Whether TensorRT's parser is asked too. None asks it if it is installed and the model is not large. The
            job asks the parser, not the linter.
        folder: The folder to which model paths are relative for globs; None for the working directory.
    """

    targets: tuple[str, ...] = ("tensorrt",)
    compute_capabilities: tuple[int, ...] = ()
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)
    per_model_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    per_node_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parser: bool | None = False
    folder: Path | None = None

    def before_move(self, destination: Path) -> "Policy":
        """Return the policy for a model in a temporary file, with the ``per_model_ignores`` of its final path."""
        shown = _relative(destination, self.folder)
        codes = [code for glob, words in self.per_model_ignores.items() if _fits_path(shown, glob) for code in words]
        return replace(self, per_model_ignores={"*": tuple(codes)} if codes else {})


class Linter:
    """Applies a policy to models.

    Raises:
        ArgumentError: The policy names a target or a rule that does not exist.
    """

    def __init__(self, policy: Policy) -> None:
        if not policy.targets:
            raise ArgumentError(f"targets is empty; it must be one or more of {', '.join(targets.names())}")
        self._policy = policy
        asked = policy.compute_capabilities
        self._targets = tuple(targets.get(name).on(asked) for name in dict.fromkeys(policy.targets))
        self._rules = rules.choose(policy.select, policy.ignore, policy.extend_select)
        self._asked = rules.choose(policy.select, (), policy.extend_select)
        self._severity = _narrowest(policy.severity)
        self._model_ignores = [(glob, _codes(words)) for glob, words in policy.per_model_ignores.items()]
        self._node_ignores = [(glob, _codes(words)) for glob, words in policy.per_node_ignores.items()]

    def file(self, path: Path) -> ModelReport:
        """Return the report of a file. If the file cannot be read, the report has an error instead of findings."""
        try:
            return self.model(load_model(path))
        except ModelError as error:
            return ModelReport(str(path), (), f"{error.message}; {error.hint}" if error.hint else error.message)

    def model(self, model: Model) -> ModelReport:
        """Return the report of a model."""
        with _no_collection():
            return self._report(model)

    def _report(self, model: Model) -> ModelReport:
        context = RuleContext(model)
        # Rules that need the parser's answer are applied after the parser was asked.
        chosen = tuple(rule for rule in self._rules_for(model.path) if not rule.asks_parser)
        ignored = self._ignored_for(model.path)
        others = [rule for rule in rules.catalogue() if rule not in self._asked and not rule.asks_parser]
        quiet = _Quiet.of(read_suppressions(context.view), self._node_ignores)
        prints = Fingerprints()
        reports = tuple(
            replace(
                self._judge(context, target, chosen, quiet, prints),
                ignored=_ignored(context, target, ignored, quiet),
                not_selected=sum(rule.impact(target) is not None for rule in others),
            )
            for target in self._targets
        )
        path = str(model.path) if model.path is not None else "<memory>"
        file = describe_file(model, most_data=QUICK_BYTES)
        repeats = any(each.causes for each in reports)
        coarse = context.per_tensor_weights() if repeats else 0
        return ModelReport(path, reports, qdq_nodes=len(context.qdq.nodes), file=file, per_tensor_weights=coarse)

    def hears_parser(self, path: Path) -> bool:
        """Whether a target has TensorRT's parser, and a rule that applies to this file uses its answer."""
        is_target = any(target.id == PARSER_TARGET for target in self._targets)
        return is_target and any(rule.asks_parser for rule in self._rules_for(path))

    def with_parser(self, report: ModelReport, word: ParserAnswer) -> ModelReport:
        """Add the parser's errors to the report of a file; the report of an unreadable file stays unchanged."""
        path = Path(report.path)
        return replace(
            report,
            targets=tuple(
                self._with_parser(path, each, word) if each.target == PARSER_TARGET else each for each in report.targets
            ),
        )

    def _with_parser(self, path: Path, report: TargetReport, word: ParserAnswer) -> TargetReport:
        if word.status == "asked":
            chosen = tuple(rule for rule in self._rules_for(path) if rule.asks_parser)
            # The parser accepts most models: only refused models are read again.
            found = (
                self._from_parser(path, report, chosen, word)
                if word.faults
                else target_report(report.target, (), checked=())
            )
            report = replace(
                with_findings(report, [*report.findings, *found.findings]),
                checked=(*report.checked, *(rule.code for rule in chosen)),
                suppressed=report.suppressed + found.suppressed,
                lowered=report.lowered + found.lowered,
            )
        return replace(report, parser=word.status, parser_note=word.note, parser_messages=word.messages)

    def _from_parser(
        self, path: Path, report: TargetReport, chosen: tuple[Rule, ...], word: ParserAnswer
    ) -> TargetReport:
        context = RuleContext(load_model(path))
        reported = {(each.graph, each.node) for each in report.findings if each.effect == "refused"}
        context.parser_faults = tuple(
            fault for fault in word.faults if not is_explained(fault.node(context.nodes), reported)
        )
        (target,) = (each for each in self._targets if each.id == PARSER_TARGET)
        quiet = _Quiet.of(read_suppressions(context.view), self._node_ignores)
        return self._judge(context, target, chosen, quiet, Fingerprints())

    def fixable(self, context: RuleContext) -> Iterator[tuple[Finding, Fault]]:
        """Yield every finding that is not suppressed and has a fix, with its fault, target by target."""
        quiet = _Quiet.of(read_suppressions(context.view), self._node_ignores)
        for target in self._targets:
            for rule in self._rules_for(context.model.path):
                for finding, fault in rule.locate(context, target):
                    if fault.fixes and not quiet.about(finding.code, fault.node):
                        yield finding, fault

    def _judge(
        self, context: RuleContext, target: Target, chosen: tuple[Rule, ...], quiet: "_Quiet", prints: Fingerprints
    ) -> TargetReport:
        found: list[Finding] = []
        suppressed = lowered = 0
        for rule in chosen:
            for finding, fault in rule.locate(context, target):
                if quiet.about(finding.code, fault.node):
                    suppressed += 1
                else:
                    found.append(self._with_policy(finding, fault.node, prints))
                    lowered += finding.severity == "error" and found[-1].severity != "error"
        checked = tuple(rule.code for rule in chosen if rule.impact(target) is not None)
        report = target_report(target.id, found, checked=checked, suppressed=suppressed)
        return replace(report, lowered=lowered, parser="off" if target.id == PARSER_TARGET else None)

    def _with_policy(self, finding: Finding, node: NodeView | None, prints: Fingerprints) -> Finding:
        names, structure = prints.of(finding, node)
        return replace(
            finding,
            severity=self._severity.get(finding.code, finding.severity),
            context=prints.context(node) if node is not None else "",
            fingerprint=names,
            structure=structure,
        )

    def _rules_for(self, path: Path | None) -> tuple[Rule, ...]:
        if path is None or not self._model_ignores:
            return self._rules
        shown = _relative(path, self._policy.folder)
        ignored = {code for glob, codes in self._model_ignores if _fits_path(shown, glob) for code in codes}
        return tuple(rule for rule in self._rules if rule.code not in ignored)

    def _ignored_for(self, path: Path | None) -> tuple[Rule, ...]:
        """Return the rules that are both selected and ignored; rules that need the parser's answer are left out."""
        chosen = set(self._rules_for(path))
        return tuple(rule for rule in self._asked if rule not in chosen and not rule.asks_parser)


def _ignored(context: RuleContext, target: Target, chosen: tuple[Rule, ...], quiet: "_Quiet") -> tuple[Ignored, ...]:
    """Count the findings of ignored rules, except suppressed ones."""
    found = {
        rule.code: [
            each.severity for each, fault in rule.locate(context, target) if not quiet.about(each.code, fault.node)
        ]
        for rule in chosen
        if rule.impact(target) is not None
    }
    return tuple(Ignored(code, len(each), each.count("error")) for code, each in found.items())


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause garbage collection in the block, in which many objects are made and none becomes garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class _Quiet:
    """The suppressions of a model: by notes in it, and by globs over node names."""

    notes: tuple[tuple[Suppression, frozenset[str]], ...]
    globs: list[tuple[str, frozenset[str]]]

    @classmethod
    def of(cls, suppressions: Iterable[Suppression], globs: list[tuple[str, frozenset[str]]]) -> "_Quiet":
        return cls(tuple((note, frozenset(_known_codes(note.prefixes))) for note in suppressions), globs)

    def about(self, code: str, node: NodeView | None) -> bool:
        if any(code in codes and note.covers(node) for note, codes in self.notes):
            return True
        if node is None:
            return False
        return any(code in codes and fnmatch.fnmatchcase(node.label, glob) for glob, codes in self.globs)


def _codes(prefixes: Iterable[str]) -> frozenset[str]:
    return frozenset(rule.code for prefix in prefixes for rule in rules.matching(prefix))


def _known_codes(prefixes: Iterable[str]) -> Iterator[str]:
    for prefix in prefixes:
        try:
            yield from _codes([prefix])
        except ArgumentError:
            # The rule about unused suppressions (QM901) reports an unknown code.
            continue


def _narrowest(severity: Mapping[str, Severity]) -> dict[str, Severity]:
    chosen: dict[str, Severity] = {}
    for prefix in sorted(severity, key=lambda prefix: len(rules.matching(prefix)), reverse=True):
        chosen |= dict.fromkeys(_codes([prefix]), severity[prefix])
    return chosen


def _relative(path: Path, folder: Path | None) -> str:
    absolute, base = path.absolute(), (folder or Path.cwd()).absolute()
    return (absolute.relative_to(base) if absolute.is_relative_to(base) else absolute).as_posix()


def _fits_path(path: str, glob: str) -> bool:
    return fnmatch.fnmatchcase(path, glob) or fnmatch.fnmatchcase(path.rsplit("/", 1)[-1], glob)
