"""Find out where the codes that a DQ reads were made."""

from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.view import NodeView, Scope, Value


class CodeOrigin:
    """Where codes were made, through the operators that moved them.

    Args:
        context: The model.
    """

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._bodies: dict[NodeView, list[Scope]] = {}
        for scope in context.view.scopes:
            if scope.owner is not None:
                self._bodies.setdefault(scope.owner, []).append(scope)

    def is_quantizers(self, value: Value | None) -> bool:
        """Return whether all codes of a tensor come from Q nodes: none is stored, an input or the result of a Cast."""
        pending, seen = [value], set()
        while pending:
            current = pending.pop()
            if current is None or current.producer is None:
                return False
            if current in seen:
                continue
            seen.add(current)
            maker = self._context.qdq.maker(current)
            if maker is None:
                sources = self._sources(current, current.producer)
                if not sources:
                    return False
                pending += sources
            elif not maker.is_quantize:
                return False
        return True

    def _sources(self, value: Value, producer: NodeView) -> list[Value]:
        """Return the tensors of the same type that a node makes ``value`` of."""
        if producer.is_op("If"):
            index = list(producer.proto.output).index(value.name)
            made = [scope.resolve(scope.output_names()[index]) for scope in self._bodies.get(producer, [])]
            return [each for each in made if each is not None]
        if producer.is_op("Cast"):
            return []
        wanted = self._context.elem_type(value)
        inputs = [producer.input(index) for index in range(len(producer.proto.input))]
        return [each for each in inputs if each is not None and self._context.elem_type(each) == wanted]
