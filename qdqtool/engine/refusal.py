"""Why a builder refuses a model: whether the float model fails as well, and whether fixed shapes would help."""

import shlex
import tempfile
from dataclasses import replace
from pathlib import Path

from qdqtool.data import input_specs
from qdqtool.data.input_shapes import spell_shapes
from qdqtool.engine.build_model import stored
from qdqtool.engine.builder import BuilderFailedError, BuildRefusedError, EngineBuilder, EngineRequest
from qdqtool.errors import QdqError
from qdqtool.graph.index.view import GraphView
from qdqtool.graph.model import Model
from qdqtool.insertion.strip import strip_from
from qdqtool.transforms.specialize import specialize

_NOT_THE_CAUSE = "quantization is not the cause"


def explain(
    error: BuildRefusedError, builder: EngineBuilder, request: EngineRequest, *, is_specialized: bool
) -> BuildRefusedError:
    """The same refusal with a remark on the float model, and an option where one would help.

    The model without its Q/DQ is given to the same builder.

    Args:
        error: The refusal.
        builder: What refuses.
        request: What it was asked for.
        is_specialized: Whether the shapes were fixed already.
    """
    float_fails, error.remark = _try_float(builder, request)
    if float_fails and not is_specialized:
        option = _folding_option(request)
        if option:
            error.hint = f"fix the shapes, which folds the model's If nodes: {option}"
    error.hint = "; ".join(filter(None, (error.remark, error.hint))) or None
    return error


def _try_float(builder: EngineBuilder, request: EngineRequest) -> tuple[bool, str]:
    """Whether the float model fails, and what to say of it."""
    try:
        stripped = strip_from(request.model)
        if stripped.report.kept:
            return False, ""
        if not stripped.report.removed:
            return True, f"this is a float model: {_NOT_THE_CAUSE}"
        with stored(stripped.model) as model, tempfile.TemporaryDirectory(prefix="qdqtool-engine-") as folder:
            builder.build(replace(request, model=model, engine=Path(folder) / "engine", verbose_log=None))
    except BuildRefusedError as again:
        return True, f"the float model is refused too ({again.refusals[0].reason}): {_NOT_THE_CAUSE}"
    except BuilderFailedError as again:
        return True, f"the float model fails too ({again.message}): {_NOT_THE_CAUSE}"
    except QdqError:
        return False, ""  # what cannot be stripped or stored tells nothing
    return False, "the float model builds: the Q/DQ nodes are the cause"


def _folding_option(request: EngineRequest) -> str:
    """The option that makes an ``If`` of the model go away; empty where none does."""
    model = request.model
    shapes = {profile.name: profile.opt for profile in request.profiles} or _declared(model)
    before = _branches(model)
    if not shapes or not before or _branches(specialize(model, shapes).model) >= before:
        return ""
    return f"--input-shapes {shlex.quote(spell_shapes(shapes))}"


def _declared(model: Model) -> dict[str, tuple[int, ...]]:
    """The first input, of a model whose inputs are all static."""
    first = next(iter(input_specs(model)), None)
    sizes = tuple(dim for dim in (first.shape or ()) if isinstance(dim, int)) if first is not None else ()
    return {first.name: sizes} if first is not None and len(sizes) == len(first.shape or ()) else {}


def _branches(model: Model) -> int:
    return sum(node.is_op("If") for node in GraphView(model).nodes())
