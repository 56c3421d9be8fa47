"""Reduce a model: see that it fails, and take the steps in their order."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import onnx
from onnx import helper

from qdqtool.errors import UsageError
from qdqtool.jobs.reduction.commands import Command, refuse_wrong_use
from qdqtool.jobs.reduction.failure import Failure
from qdqtool.jobs.reduction.search import OutOfRunsError, Search, node_count
from qdqtool.jobs.reduction.steps.bodies import inline_functions, keep_few_body_nodes, take_a_body
from qdqtool.jobs.reduction.steps.bypass import bypass_nodes
from qdqtool.jobs.reduction.steps.constants import fold_constants
from qdqtool.jobs.reduction.steps.nodes import keep_few_nodes
from qdqtool.jobs.reduction.steps.shapes import shrink_shapes
from qdqtool.jobs.reduction.steps.simplify import simplify
from qdqtool.jobs.reduction.subgraph import Subgraphs, with_proto
from qdqtool.models.graph.model import Model

UNSTABLE_ATTEMPTS = 3
"""How often a candidate is run at most where the failure is not stable."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """One step of a reduction.

    Attributes:
        name: What it does, in words.
        nodes: Nodes that were left after it.
        runs: Runs of the command that it took.
    """

    name: str
    nodes: int
    runs: int


class Reducer:
    """Reduces one model.

    Args:
        search: The search, whose best model is the given one.
        command: The command that fails.

    Attributes:
        steps: What was done so far.
        is_complete: Whether all steps were taken to their end.
        is_stable: Whether the first two runs failed alike.
    """

    def __init__(self, search: Search, command: Command) -> None:
        self._search, self._command, self._given = search, command, search.best
        self.steps: list[StepDone] = []
        self.is_complete = False
        self.is_stable = True

    def observe(self) -> Failure:
        """Run the command twice on the model; return the first failure.

        Raises:
            UsageError: The command does not fail on the model, or refuses its options.
        """
        model = self._search.best
        with self._step("see it fail"):
            failure, again = self._search.observe(model), self._search.observe(model)
            self.is_stable = failure is not None and again is not None and again.is_like(failure)
            failure = failure or again
            if failure is None:
                raise UsageError(f"the command does not fail on {model.path}: `{self._command.line(str(model.path))}`")
            refuse_wrong_use(failure, self._command)
        self._search.attempts = 1 if self.is_stable else UNSTABLE_ATTEMPTS
        self._search.start(failure)
        return failure

    def reduce(self) -> None:
        """Take all steps. It ends early, with the smallest model so far, where no runs are left.

        Raises:
            UsageError: The command fails alike on any model.
        """
        try:
            self._take_steps()
            self.is_complete = True
        except OutOfRunsError:
            pass

    def _take_steps(self) -> None:
        with self._step("remove unused weights"):
            _remove_unused(self._search)
        self._take("keep few nodes", keep_few_nodes)
        with self._step("run a model that does nothing"):
            self._refuse_any_model()
        while self._descends():
            self._take("keep few nodes", keep_few_nodes)
        if self._search.cuts is not None:
            # The other steps change what the model computes, and the baseline would compute something else.
            return
        self._take("remove nodes from bodies", keep_few_body_nodes)
        self._take("bypass nodes", bypass_nodes)
        self._take("fold constants", fold_constants)
        self._take("simplify", simplify)
        self._take("shrink shapes", shrink_shapes)

    def _descends(self) -> bool:
        """Whether the nodes of a local function or of a body could be put into the main graph."""
        with self._step("take the nodes of a body"):
            return inline_functions(self._search) or take_a_body(self._search)

    def _refuse_any_model(self) -> None:
        """Raise the error of a command that fails on any model. One run that passed shows that it does not."""
        if self._search.counts.passed:
            return
        failure = self._search.observe(_that_does_nothing(self._given))
        if failure is not None and failure.is_like(self._search.failure):
            raise UsageError(
                f"the command fails alike on a model that only copies its inputs, so {self._given.path} is not the "
                f"cause: {failure.message or failure.kind.value}"
            )

    def _take(self, name: str, step: Callable[[Search], None]) -> None:
        with self._step(name):
            step(self._search)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        before = self._search.counts.runs
        try:
            yield
        finally:
            runs = self._search.counts.runs - before
            if runs:
                self.steps.append(StepDone(name, node_count(self._search.best), runs))


def _remove_unused(search: Search) -> None:
    """Remove the weights that no node reads, unless it is one of them that the command fails on."""
    graph = Subgraphs(search.best, frozenset())
    values = graph.index.view.main.values.values()
    unused = frozenset(each.name for each in values if each.initializer is not None and not each.uses)
    everything = range(len(graph.nodes))
    if unused and not search.accepts(graph.keep(everything)):
        search.kept_unused = unused


def _that_does_nothing(model: Model) -> Model:
    """A model of the same inputs that copies them to its outputs."""
    source = model.proto
    proto = onnx.ModelProto(ir_version=source.ir_version, opset_import=source.opset_import)
    graph = proto.graph
    graph.name = "control"
    stored = {tensor.name for tensor in source.graph.initializer}
    graph.input.extend(value for value in source.graph.input if value.name not in stored)
    if not graph.input:
        graph.input.append(helper.make_tensor_value_info("control_input", onnx.TensorProto.FLOAT, (1,)))
    for index, value in enumerate(graph.input):
        name = f"control_output_{index}"
        graph.node.append(helper.make_node("Identity", [value.name], [name]))
        graph.output.add(name=name, type=value.type)
    return with_proto(model, proto)
