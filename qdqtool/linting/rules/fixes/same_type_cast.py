"""Take out a Cast to the type that its input has already, as FX exports of PyTorch write between Q and DQ."""

from functools import partial

from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.view import NodeView, Value

SAME_TYPE = Offer("safe", "takes out a Cast to the type that the codes have already")


def cast_fixes(context: RuleContext, cast: NodeView) -> tuple[Fix, ...]:
    """Return the fix that takes out a Cast that changes no type; none for other nodes."""
    source, output = cast.input(0), cast.output()
    if not cast.is_op("Cast") or source is None or output is None:
        return ()
    if context.elem_type(source) is None or context.elem_type(source) != cast.attribute("to"):
        return ()
    return (Fix(SAME_TYPE, "takes out the Cast, which changes no type", partial(_take_out, source, output)),)


def _take_out(source: Value, output: Value, draft: Draft) -> None:
    if any(use.node.scope.resolve(source.name) is not source for use in output.uses):
        raise UnfitError(f"'{source.name}' cannot be read here")
    draft.replace(output, source.name)
