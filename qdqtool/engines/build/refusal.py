"""Explain a refusal: find the node, the fix, and whether the float model fails too."""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.engines.build.build_model import ModelToBuild, stored
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.parser_answer import reduce_command
from qdqtool.engines.build.report import RefusedReport
from qdqtool.engines.report import Refusal
from qdqtool.engines.tensorrt.builder import BuilderFailedError, BuildRefusedError, EngineRequest
from qdqtool.engines.tensorrt.known_refusals.types import HELD, UNHELD_INPUT
from qdqtool.engines.tensorrt.operator_hints import FUNCTIONS, inlining_hint, with_path
from qdqtool.engines.tensorrt.tensorrt_builder import TensorRT
from qdqtool.errors import QdqError
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView, NodeView
from qdqtool.models.graph.io.model_file import describe_path
from qdqtool.models.graph.model import Model
from qdqtool.models.scratch import ScratchFolder
from qdqtool.models.targets import type_name
from qdqtool.models.transforms.specialize import specialize
from qdqtool.models.transforms.specialize_branches import deciding_values
from qdqtool.models.transforms.strip import strip_from
from qdqtool.samples.input_shapes import spell_shapes, spell_value_options
from qdqtool.samples.signature import input_specs


def refused_report(model: str | Path, error: BuildRefusedError) -> RefusedReport:
    """Turn the error of :func:`build_engine` into a report."""
    return RefusedReport(
        model=str(model),
        engine=None,
        passed=False,
        stage=error.stage,
        message=error.message,
        refusals=error.refusals,
        remark=error.remark,
        hint=error.hint,
        model_file=describe_path(Path(model)),
    )


_NUMBER = "number "
_UNNAMED = "node_of_"


class FaultLocator:
    """Finds nodes in one model."""

    def __init__(self, model: Model, target: str) -> None:
        self._context, self._target = RuleContext(model), targets.get(target)
        self._view = GraphView(model)
        self._nodes = tuple(self._view.nodes())
        self._inputs = model.proto.graph.input

    def locate(self, refusal: Refusal) -> tuple[Refusal, Finding | None]:
        """Return the refusal, completed with its node and a rule code, and the finding of this rule."""
        if UNHELD_INPUT in refusal.message:
            return self._with_input(refusal), None
        node = self._node(refusal)
        if node is not None:
            refusal = replace(refusal, node=node.label, op_type=node.op_type)
        found = list(self.findings(refusal.rules))
        here = [each for each in found if refusal.node in {None, each.node}]
        if not here:
            return refusal, None
        first = here[0]
        return (
            replace(
                refusal, node=refusal.node or first.node, op_type=refusal.op_type or first.op_type, code=first.code
            ),
            first,
        )

    def findings(self, codes: tuple[str, ...]) -> Iterator[Finding]:
        """Yield the findings of rules that make the target refuse the model, in the order of the codes."""
        for code in codes:
            yield from (each for each in rules.get(code).run(self._context, self._target) if each.effect == "refused")

    def all_findings(self) -> Iterator[Finding]:
        """Yield all findings that make the target refuse the model."""
        return self.findings(tuple(rule.code for rule in rules.catalogue()))

    def _with_input(self, refusal: Refusal) -> Refusal:
        types = {value.name: type_name(value.type.tensor_type.elem_type) for value in self._inputs}
        name = next((name for name, held in types.items() if held not in HELD), None)
        if name is None:
            return refusal
        return replace(refusal, tensor=name, reason=f"input '{name}' is {types[name]}, which TensorRT does not support")

    def _node(self, refusal: Refusal) -> NodeView | None:
        name = refusal.node
        if name is None:
            return self._beside(refusal.tensor) if refusal.tensor is not None else self._only(refusal.op_type)
        if name.startswith(_NUMBER) and name.removeprefix(_NUMBER).isdigit():
            return self._numbered(int(name.removeprefix(_NUMBER)), refusal.op_type)
        named = [node for node in self._nodes if node.proto.name == name]
        if len(named) == 1:
            return named[0]
        return self._making(name.removeprefix(_UNNAMED)) if name.startswith(_UNNAMED) else None

    def _only(self, op_type: str | None) -> NodeView | None:
        """Return the node of an operator if the model has only one such node."""
        nodes = [node for node in self._nodes if node.op_type == op_type]
        return nodes[0] if len(nodes) == 1 else None

    def _numbered(self, number: int, op_type: str | None) -> NodeView | None:
        # The parser sorts nodes that are out of order; its number then belongs to another node of our file.
        main = self._view.main.nodes
        return main[number] if number < len(main) and main[number].op_type == op_type else None

    def _making(self, words: str) -> NodeView | None:
        """Return the node with the output ``words``, or with the longest output that ``words`` extends by ``_``."""
        # TensorRT names a node without a name after its first output (``node_of_y``), and the layers of this node after
        # that (``node_of_y_elu``).
        made = {output: node for node in self._nodes for output in node.proto.output if output}
        fitting = [output for output in made if words == output or words.startswith(f"{output}_")]
        return made[max(fitting, key=len)] if fitting else None

    def _beside(self, tensor: str) -> NodeView | None:
        """Return the node that makes a tensor of the main graph, or else the first node that reads it."""
        value = self._view.main.values.get(tensor)
        if value is None:
            return None
        return value.producer or next((use.node for use in value.uses), None)


_NOT_THE_CAUSE = "quantization is not the cause"


@dataclass(frozen=True, slots=True)
class FailedBuild:
    """A build that failed.

    Attributes:
        builder: The builder that refused.
        request: The request that was refused.
        path: The file from the user; the request may have a copy with other shapes.
        options: The options of the build.
        is_specialized: Whether input shapes were fixed already.
    """

    builder: TensorRT
    request: EngineRequest
    path: Path
    options: BuildOptions
    is_specialized: bool

    @property
    def reduce(self) -> str:
        """The command that finds the smallest model that is refused in the same way."""
        return reduce_command(self.path, self.builder.id, self.options)


def explain(error: BuildRefusedError, attempt: FailedBuild) -> BuildRefusedError:
    """Return a refusal with its nodes, their fixes, and a remark on the float model.

    For the remark, the same builder builds the model without its Q/DQ nodes.
    """
    if isinstance(error, BuilderFailedError):
        return _explain_failure(error, attempt)
    locator = FaultLocator(attempt.request.model, attempt.builder.target)
    located = tuple(dict.fromkeys(_located(refusal, locator, attempt) for refusal in error.refusals))
    explained = BuildRefusedError(error.title, located, error.stage)
    float_fails, explained.remark = _try_float(attempt.builder, attempt.request)
    # TensorRT for RTX fails with an internal error (ScopeType::kUNDEFINED) on some models with If nodes,
    # quantized or not; fixed shapes fold the If nodes away.
    if float_fails and not attempt.is_specialized:
        option = _folding_option(attempt.request)
        if option:
            explained.hint = f"to fold the If nodes of the model, fix the shapes instead of --opt-shapes: `{option}`"
    explained.hint = "; ".join(filter(None, (explained.remark, explained.hint))) or None
    return explained


def _located(refusal: Refusal, locator: FaultLocator, attempt: FailedBuild) -> Refusal:
    located, finding = locator.locate(refusal)
    unknown_hint = f"qdqtool does not know this message; `{attempt.reduce}` finds the smallest model with it"
    node_hint = f"`{attempt.reduce}` finds the node"
    ways = [located.hint, _fix_hint(finding, attempt) if finding is not None else None]
    if not located.explained:
        ways.append(unknown_hint)
    elif located.rules and located.node is None:
        ways.append(node_hint)
    hint = "; ".join(filter(None, ways))
    return replace(located, hint=with_path(hint, attempt.path) or None)


def _fix_hint(finding: Finding, attempt: FailedBuild) -> str | None:
    if not finding.fixable:
        return None
    options = "--fix" if finding.safe_fix else "--fix --unsafe-fixes"
    return f"`qdqtool validate --target {attempt.builder.target} {options} MODEL -o OUT.onnx` does that"


def _explain_failure(error: BuilderFailedError, attempt: FailedBuild) -> BuilderFailedError:
    """Return a crash or time-out with the first finding in the model, and the command that finds the faulty part."""
    reduce_hint = f"`{attempt.reduce}` finds the smallest model with this fault"
    cause = None if error.is_slow else _cause(attempt)
    hint = "; ".join(filter(None, (cause.hint if cause is not None else None, error.hint, reduce_hint)))
    return error.because(cause, with_path(hint, attempt.path))


def _cause(attempt: FailedBuild) -> Refusal | None:
    """Return the first fault that the rules find (the validate gate may have been skipped), or None."""
    finding = next(FaultLocator(attempt.request.model, attempt.builder.target).all_findings(), None)
    if finding is None:
        return None
    return Refusal(
        reason=finding.message,
        node=finding.node,
        op_type=finding.op_type,
        hint=_fix_hint(finding, attempt) or (inlining_hint(finding.op_type) if finding.op_type in FUNCTIONS else None),
        code=finding.code,
    )


def _try_float(builder: TensorRT, request: EngineRequest) -> tuple[bool, str]:
    """Return whether the float model fails too, and a remark about it."""
    try:
        stripped = strip_from(request.model)
        if stripped.report.kept:
            return False, ""
        if not stripped.report.removed:
            return True, f"this is a float model: {_NOT_THE_CAUSE}"
        with stored(stripped.model) as model, ScratchFolder("qdqtool-engine-") as folder:
            builder.build(replace(request, model=model, engine=folder.path / "engine", verbose_log=None))
    except BuilderFailedError as again:
        # A time-out says nothing about the cause.
        return (
            (False, "") if again.is_slow else (True, f"the float model fails too ({again.message}): {_NOT_THE_CAUSE}")
        )
    except BuildRefusedError as again:
        return True, f"the float model is refused too ({again.refusals[0].reason}): {_NOT_THE_CAUSE}"
    except QdqError:
        # A model that cannot be stripped or stored says nothing about the cause.
        return False, ""
    return False, "the float model builds: the Q/DQ nodes are the cause"


def _folding_option(request: EngineRequest) -> str:
    """Return the options that fold an ``If`` node of the model; empty if no options fold one."""
    model = request.model
    shapes = {profile.name: profile.opt for profile in request.profiles} or _declared(model)
    values = deciding_values(ModelIndex.of(model))
    before = _branches(model)
    if not shapes or not before or _branches(specialize(model, shapes, values).model) >= before:
        return ""
    return shlex.join(["--input-shapes", spell_shapes(shapes), *spell_value_options(values)])


def _declared(model: Model) -> dict[str, tuple[int, ...]]:
    """Return the shape of the first input if it is static; empty otherwise."""
    first = next(iter(input_specs(model)), None)
    sizes = tuple(dim for dim in (first.shape or ()) if isinstance(dim, int)) if first is not None else ()
    return {first.name: sizes} if first is not None and len(sizes) == len(first.shape or ()) else {}


def _branches(model: Model) -> int:
    return sum(node.is_op("If") for node in GraphView(model).nodes())


def refuse_errors(findings: Iterable[Finding], ready: ModelToBuild, builder: TensorRT) -> None:
    """Refuse a model with errors of the rules.

    Args:
        findings: The findings of ``validate`` for the builder's release.
        ready: The model.
        builder: The builder that would build it.

    Raises:
        BuildRefusedError: A finding is an error; the hint has the command that shows or fixes it.
    """
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    command = f"qdqtool validate --target {builder.release} {shlex.quote(str(ready.model.path))}"
    fix = "--fix" if all(finding.safe_fix for finding in errors) else "--fix --unsafe-fixes"
    if ready.specialized is not None:
        hint = "other --input-shapes and --input-values may pass; `--skip-validate` builds anyway"
    elif all(finding.fixable for finding in errors):
        hint = f"`{command} {fix} -o OUT.onnx` fixes it"
    else:
        hint = f"`{command}` shows all findings; `--skip-validate` builds anyway"
    refusals = tuple(
        Refusal(reason=finding.message, node=finding.node, op_type=finding.op_type, code=finding.code)
        for finding in errors
    )
    raise BuildRefusedError(f"validate for {builder.release}", refusals, "validate", hint=hint)
