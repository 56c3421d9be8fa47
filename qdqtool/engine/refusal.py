"""Explain a refusal: find out whether the float model fails too, and whether fixed input shapes would help."""

import shlex
from dataclasses import replace

from qdqtool.builders.builder import BuilderFailedError, BuildRefusedError, EngineBuilder, EngineRequest
from qdqtool.data import input_specs
from qdqtool.data.input_shapes import spell_shapes
from qdqtool.engine.build_model import stored
from qdqtool.errors import QdqError
from qdqtool.graph.index.view import GraphView
from qdqtool.graph.model import Model
from qdqtool.insertion.strip import strip_from
from qdqtool.scratch import ScratchFolder
from qdqtool.transforms.specialize import specialize

_NOT_THE_CAUSE = "quantization is not the cause"


def explain(
    error: BuildRefusedError, builder: EngineBuilder, request: EngineRequest, *, is_specialized: bool
) -> BuildRefusedError:
    """Add a remark on the float model to a refusal, and the option that would help, if any.

    The model without its Q/DQ nodes is given to the same builder.

    Args:
        error: The refusal.
        builder: The builder that refused.
        request: The request that it refused.
        is_specialized: Whether input shapes were fixed already.
    """
    float_fails, error.remark = _try_float(builder, request)
    # TensorRT for RTX 1.7.1 fails with an internal error (ScopeType::kUNDEFINED) on some models with If nodes,
    # quantized or not; fixed shapes fold the If nodes away.
    if float_fails and not is_specialized:
        option = _folding_option(request)
        if option:
            error.hint = f"fix the shapes, which folds the model's If nodes: `{option}`"
    error.hint = "; ".join(filter(None, (error.remark, error.hint))) or None
    return error


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
    except BuildRefusedError as again:
        return True, f"the float model is refused too ({again.refusals[0].reason}): {_NOT_THE_CAUSE}"
    except BuilderFailedError as again:
        return True, f"the float model fails too ({again.message}): {_NOT_THE_CAUSE}"
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
