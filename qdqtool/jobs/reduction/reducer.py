"""Reduce a model: check that the command fails on it, and carry out the steps in order."""

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper

from qdqtool.errors import UsageError
from qdqtool.jobs.reduction.commands import Command, refuse_wrong_use
from qdqtool.jobs.reduction.failure import Failure
from qdqtool.jobs.reduction.search import OutOfRunsError, Search, node_count
from qdqtool.jobs.reduction.steps.bodies import inline_functions, keep_few_body_nodes, take_a_body
from qdqtool.jobs.reduction.steps.nodes import bypass_nodes, keep_few_nodes
from qdqtool.jobs.reduction.steps.simplify import fold_constants, simplify
from qdqtool.jobs.reduction.subgraph import Subgraphs, with_proto
from qdqtool.models.graph.index.inference import infer_types
from qdqtool.models.graph.io.copying import without_weights
from qdqtool.models.graph.io.tensors import make_tensor, nbytes, read_array
from qdqtool.models.graph.model import Model

_TARGETS = (1, 2, 8)
"""Extents to which larger extents are reduced. With 2 elements, a failure still shows the axis of an operation."""

_MOST_EXTENTS = 12
"""Only this number of extents, the most frequent ones, are reduced one by one."""

_MOST_BYTES = 1 << 28
"""Larger weights are not cut."""


def shrink_shapes(search: Search) -> None:
    """Make all extents small at once. If the command then does not fail alike, reduce the extents one by one."""
    extents = [extent for extent, _ in Counter(_extents(search.best)).most_common(_MOST_EXTENTS)]
    for target in _TARGETS:
        larger = {extent: target for extent in extents if extent > target}
        if len(larger) > 1 and _takes(search, larger):
            return
    for extent in sorted(extents, reverse=True):
        any(_takes(search, {extent: target}) for target in _TARGETS if target < extent)


def _takes(search: Search, extents: Mapping[int, int]) -> bool:
    return any(search.accepts(_resized(search.best, extents, with_weights=both)) for both in (True, False))


def _extents(model: Model) -> Iterator[int]:
    """Return the extents above 1 of inputs and weights."""
    graph = model.proto.graph
    shapes = [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in graph.input]
    shapes += [list(tensor.dims) for tensor in graph.initializer]
    return (extent for shape in shapes for extent in shape if extent > 1)


def _resized(model: Model, extents: Mapping[int, int], *, with_weights: bool) -> Model | None:
    proto = copy.deepcopy(model.proto)
    changed = sum(_resize_input(value, extents) for value in proto.graph.input)
    for tensor in proto.graph.initializer if with_weights else ():
        if nbytes(tensor) <= _MOST_BYTES:
            changed += _resize_tensor(model, tensor, extents)
    if not changed:
        return None
    del proto.graph.value_info[:]
    _declare_outputs(proto)
    return with_proto(model, proto)


def _resize_input(value: onnx.ValueInfoProto, extents: Mapping[int, int]) -> int:
    changed = 0
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_value in extents:
            dim.dim_value = extents[dim.dim_value]
            changed += 1
    return changed


def _resize_tensor(model: Model, tensor: TensorProto, extents: Mapping[int, int]) -> int:
    """Cut a stored tensor; in an int64 vector, which may be a shape, the numbers are replaced."""
    new: Callable[[int], int] = lambda extent: extents.get(extent, extent)  # noqa: E731
    dims = tuple(map(new, tensor.dims))
    array = read_array(model, tensor)
    if tensor.data_type == TensorProto.INT64 and len(dims) == 1:
        changed = make_tensor(tensor.name, [new(int(each)) for each in array], TensorProto.INT64)
    elif dims != tuple(tensor.dims):
        changed = make_tensor(tensor.name, array[tuple(map(slice, dims))], tensor.data_type)
    else:
        return 0
    is_other = changed.dims != tensor.dims or changed.raw_data != array.tobytes()
    tensor.CopyFrom(changed)
    return int(is_other)


def _declare_outputs(proto: onnx.ModelProto) -> None:
    """Give the graph outputs the shapes that follow from the new input shapes."""
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    inferred = infer_types(without_weights(proto)).proto.graph.output
    for output, known in zip(proto.graph.output, inferred, strict=True):
        if known.type.tensor_type.HasField("shape"):
            output.type.CopyFrom(known.type)


UNSTABLE_ATTEMPTS = 3
"""How often a candidate is run, at most, if the failure is not stable."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """One step of a reduction.

    Attributes:
        name: The action of the step, in words.
        nodes: Number of nodes that were left after the step.
        runs: Number of runs of the command during the step.
    """

    name: str
    nodes: int
    runs: int


class Reducer:
    """Reduces one model.

    Attributes:
        steps: The steps that were carried out so far.
        is_complete: Whether all steps were completed.
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
        """Carry out all steps; if no runs are left, stop early with the smallest model so far."""
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
            # The other steps change what the model computes; the baseline would then compute something else.
            return
        self._take("remove nodes from bodies", keep_few_body_nodes)
        self._take("bypass nodes", bypass_nodes)
        self._take("fold constants", fold_constants)
        self._take("simplify", simplify)
        self._take("shrink shapes", shrink_shapes)

    def _descends(self) -> bool:
        """Move the nodes of a local function or body into the main graph; return whether the result fails alike."""
        with self._step("take the nodes of a body"):
            return inline_functions(self._search) or take_a_body(self._search)

    def _refuse_any_model(self) -> None:
        """Refuse a command that fails on any model; if one run passed, the command is accepted."""
        if self._search.counts.passed:
            return
        failure = self._search.observe(_that_does_nothing(self._given))
        if failure is not None and failure.is_like(self._search.failure):
            raise UsageError(
                f"the command fails in the same way on a model that only copies its inputs, so {self._given.path} is "
                f"not the cause: {failure.message or failure.kind.value}"
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
    """Remove the weights that no node reads, unless the command fails because of one of them."""
    graph = Subgraphs(search.best, frozenset())
    values = graph.index.view.main.values.values()
    unused = frozenset(each.name for each in values if each.initializer is not None and not each.uses)
    everything = range(len(graph.nodes))
    if unused and not search.accepts(graph.keep(everything)):
        search.kept_unused = unused


def _that_does_nothing(model: Model) -> Model:
    """Return a model with the same inputs, which only copies them to its outputs."""
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
