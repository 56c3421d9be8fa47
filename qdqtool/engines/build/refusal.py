"""Explain a refusal: name the node and the way out, and find out whether the float model fails too."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.engines.build.build_model import stored
from qdqtool.engines.build.fault_location import FaultLocator
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.reduce_command import reduce_command
from qdqtool.engines.tensorrt.builder import (
    BuilderFailedError,
    BuildRefusedError,
    EngineBuilder,
    EngineRequest,
    Refusal,
)
from qdqtool.engines.tensorrt.model_in_hint import with_path
from qdqtool.engines.tensorrt.operator_hints import FUNCTIONS, inlining_hint
from qdqtool.errors import QdqError
from qdqtool.linting.findings import Finding
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.scratch import ScratchFolder
from qdqtool.models.transforms.specialize import specialize
from qdqtool.models.transforms.strip import strip_from
from qdqtool.samples import input_specs
from qdqtool.samples.input_shapes import spell_shapes

_NOT_THE_CAUSE = "quantization is not the cause"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A build that failed.

    Attributes:
        builder: The builder that refused.
        request: The request that it refused.
        path: The file that the user gave; the request may have a copy with other shapes.
        options: The options of the build.
        is_specialized: Whether input shapes were fixed already.
    """

    builder: EngineBuilder
    request: EngineRequest
    path: Path
    options: BuildOptions
    is_specialized: bool

    @property
    def reduce(self) -> str:
        """The command that finds the smallest model which is refused alike."""
        return reduce_command(self.path, self.builder.id, self.options)


def explain(error: BuildRefusedError, attempt: Attempt) -> BuildRefusedError:
    """Return a refusal with nodes, ways out, and a remark on the float model.

    The model without its Q/DQ nodes is given to the same builder.

    Args:
        error: The refusal.
        attempt: The build.
    """
    if isinstance(error, BuilderFailedError):
        return _explain_failure(error, attempt)
    locator = FaultLocator(attempt.request.model, attempt.builder.target)
    located = tuple(dict.fromkeys(_located(refusal, locator, attempt) for refusal in error.refusals))
    explained = BuildRefusedError(error.title, located, error.stage)
    float_fails, explained.remark = _try_float(attempt.builder, attempt.request)
    # TensorRT for RTX 1.7.1 fails with an internal error (ScopeType::kUNDEFINED) on some models with If nodes,
    # quantized or not; fixed shapes fold the If nodes away.
    if float_fails and not attempt.is_specialized:
        option = _folding_option(attempt.request)
        if option:
            explained.hint = f"fix the shapes, which folds the model's If nodes: `{option}`"
    explained.hint = "; ".join(filter(None, (explained.remark, explained.hint))) or None
    return explained


def _located(refusal: Refusal, locator: FaultLocator, attempt: Attempt) -> Refusal:
    located, finding = locator.locate(refusal)
    unknown_hint = f"qdqtool does not know this message; `{attempt.reduce}` finds the smallest model that it is of"
    node_hint = f"`{attempt.reduce}` finds the node"
    ways = [located.hint, _fix_hint(finding, attempt) if finding is not None else None]
    if not located.explained:
        ways.append(unknown_hint)
    elif located.rules and located.node is None:
        ways.append(node_hint)
    hint = "; ".join(filter(None, ways))
    return replace(located, hint=with_path(hint, attempt.path) or None)


def _fix_hint(finding: Finding, attempt: Attempt) -> str | None:
    """Return the command that mends what a rule found; None where it has no fix."""
    if not finding.fixable:
        return None
    options = "--fix" if finding.safe_fix else "--fix --unsafe-fixes"
    return f"`qdqtool validate --target {attempt.builder.target} {options} MODEL -o OUT.onnx` does that"


def _explain_failure(error: BuilderFailedError, attempt: Attempt) -> BuilderFailedError:
    """Return a crash or a time-out with what the rules find in the model, and the command that finds the part."""
    reduce_hint = f"`{attempt.reduce}` finds the smallest model with this fault"
    cause = None if error.is_slow else _cause(attempt)
    hint = "; ".join(filter(None, (cause.hint if cause is not None else None, error.hint, reduce_hint)))
    return error.because(cause, with_path(hint, attempt.path))


def _cause(attempt: Attempt) -> Refusal | None:
    """Return the first thing in the model that the rules know the builder to refuse: the validate gate was skipped."""
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


def _try_float(builder: EngineBuilder, request: EngineRequest) -> tuple[bool, str]:
    """Return whether the float model fails, and the remark on it."""
    try:
        stripped = strip_from(request.model)
        if stripped.report.kept:
            return False, ""
        if not stripped.report.removed:
            return True, f"this is a float model: {_NOT_THE_CAUSE}"
        with stored(stripped.model) as model, ScratchFolder("qdqtool-engine-") as folder:
            builder.build(replace(request, model=model, engine=folder.path / "engine", verbose_log=None))
    except BuilderFailedError as again:
        # A build that is too slow says nothing about the cause.
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
    """Return the option that folds an ``If`` node of the model; empty where no option does."""
    model = request.model
    shapes = {profile.name: profile.opt for profile in request.profiles} or _declared(model)
    before = _branches(model)
    if not shapes or not before or _branches(specialize(model, shapes).model) >= before:
        return ""
    return f"--input-shapes {shlex.quote(spell_shapes(shapes))}"


def _declared(model: Model) -> dict[str, tuple[int, ...]]:
    """Return the shape of the first input if it is static; empty otherwise."""
    first = next(iter(input_specs(model)), None)
    sizes = tuple(dim for dim in (first.shape or ()) if isinstance(dim, int)) if first is not None else ()
    return {first.name: sizes} if first is not None and len(sizes) == len(first.shape or ()) else {}


def _branches(model: Model) -> int:
    return sum(node.is_op("If") for node in GraphView(model).nodes())
