"""The policy of ``validate`` (targets, rules and suppressions), and the linter that applies it to a model."""

import fnmatch
import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from qdqtool.errors import ArgumentError, ModelError
from qdqtool.linting import rules
from qdqtool.linting.baseline import Fingerprints
from qdqtool.linting.findings import Finding, Severity
from qdqtool.linting.parser_answer import PARSER_TARGET, ParserAnswer, is_explained
from qdqtool.linting.report import Ignored, ModelReport, TargetReport, target_report, with_findings
from qdqtool.linting.rules import Fault, Rule, RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.index.suppressions import Suppression, read_suppressions
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.metadata import with_plugins
from qdqtool.models.graph.io.model_file import QUICK_BYTES, describe_file
from qdqtool.models.graph.model import Model
from qdqtool.models.plugins import PluginOperator
from qdqtool.models.targets import Target


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
        plugin_ops: Operators to declare as plugins, besides those in the note of a model.
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
    plugin_ops: tuple[PluginOperator, ...] = ()
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
            return self.model(self.load(path))
        except ModelError as error:
            return ModelReport(str(path), (), f"{error.message}; {error.hint}" if error.hint else error.message)

    def load(self, path: Path) -> Model:
        """Read a model, and declare the plugin operators of the policy."""
        return with_plugins(load_model(path), self._policy.plugin_ops)

    def model(self, model: Model) -> ModelReport:
        """Return the report of a model."""
        with _no_collection():
            return self._report(model)

    def _report(self, model: Model) -> ModelReport:
        context = RuleContext(with_plugins(model, self._policy.plugin_ops))
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
        return ModelReport(
            path,
            reports,
            qdq_nodes=len(context.qdq.nodes),
            file=file,
            per_tensor_weights=coarse,
            plugins=tuple(each.title for each in context.plugins.values()),
        )

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
            if found.parser == "stopped":
                word = replace(word, status="stopped", note=found.parser_note)
        return replace(report, parser=word.status, parser_note=word.note, parser_messages=word.messages)

    def _from_parser(
        self, path: Path, report: TargetReport, chosen: tuple[Rule, ...], word: ParserAnswer
    ) -> TargetReport:
        context = RuleContext(self.load(path))
        reported = {(each.graph, each.node) for each in report.findings if each.effect == "refused"}
        places = {fault: fault.node(context.nodes) for fault in word.faults}
        plugins = [node for node in places.values() if node is not None and context.is_plugin(node)]
        context.parser_faults = tuple(
            fault for fault, node in places.items() if node not in plugins and not is_explained(node, reported)
        )
        (target,) = (each for each in self._targets if each.id == PARSER_TARGET)
        quiet = _Quiet.of(read_suppressions(context.view), self._node_ignores)
        found = self._judge(context, target, chosen, quiet, Fingerprints())
        if not plugins:
            return found
        # The parser has no library of plugins.
        note = f"at the plugin {plugins[0].op_type}; it did not parse all nodes behind it"
        return replace(found, parser="stopped", parser_note=note)

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
