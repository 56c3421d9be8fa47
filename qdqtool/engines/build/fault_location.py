"""Find the node of a refusal in the model: by its name or number, by a tensor, or by the rules that know the fault."""

from collections.abc import Iterator
from dataclasses import replace

from qdqtool.engines.tensorrt.builder import Refusal
from qdqtool.engines.tensorrt.known_refusals.types import HELD, UNHELD_INPUT
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.index.view import GraphView, NodeView
from qdqtool.models.graph.model import Model
from qdqtool.models.targets import type_name

_NUMBER = "number "
_UNNAMED = "node_of_"


class FaultLocator:
    """Finds nodes in one model.

    Args:
        model: The model that was refused.
        target: The target of :mod:`qdqtool.models.targets` that it was refused for.
    """

    def __init__(self, model: Model, target: str) -> None:
        self._context, self._target = RuleContext(model), targets.get(target)
        self._view = GraphView(model)
        self._nodes = tuple(self._view.nodes())
        self._inputs = model.proto.graph.input

    def locate(self, refusal: Refusal) -> tuple[Refusal, Finding | None]:
        """Return the refusal with its node and the code of the rule that finds it, and the finding of that rule."""
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
        """Yield what rules find that the target refuses, in the order of the codes."""
        for code in codes:
            yield from (each for each in rules.get(code).run(self._context, self._target) if each.effect == "refused")

    def all_findings(self) -> Iterator[Finding]:
        """Yield all that the target refuses."""
        return self.findings(tuple(rule.code for rule in rules.catalogue()))

    def _with_input(self, refusal: Refusal) -> Refusal:
        types = {value.name: type_name(value.type.tensor_type.elem_type) for value in self._inputs}
        name = next((name for name, held in types.items() if held not in HELD), None)
        if name is None:
            return refusal
        return replace(refusal, tensor=name, reason=f"input '{name}' is {types[name]}, which TensorRT does not hold")

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
        """Return the node of an operator that the model has once."""
        nodes = [node for node in self._nodes if node.op_type == op_type]
        return nodes[0] if len(nodes) == 1 else None

    def _numbered(self, number: int, op_type: str | None) -> NodeView | None:
        # The parser sorts nodes that are out of order; its number then belongs to another node of our file.
        main = self._view.main.nodes
        return main[number] if number < len(main) and main[number].op_type == op_type else None

    def _making(self, words: str) -> NodeView | None:
        """Return the node with an output of which ``words`` are the name, or begin with it and an underscore.

        TensorRT calls a node without a name after its first output, and layers that it makes of the node after that:
        ``node_of_y``, ``node_of_y_elu``.
        """
        made = {output: node for node in self._nodes for output in node.proto.output if output}
        fitting = [output for output in made if words == output or words.startswith(f"{output}_")]
        return made[max(fitting, key=len)] if fitting else None

    def _beside(self, tensor: str) -> NodeView | None:
        """Return the node that makes a tensor of the main graph, or else the first that reads it."""
        value = self._view.main.values.get(tensor)
        if value is None:
            return None
        return value.producer or next((use.node for use in value.uses), None)
