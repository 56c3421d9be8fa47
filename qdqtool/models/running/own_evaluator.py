"""Run models that ONNX Runtime's CPU provider cannot run alone: our own core evaluates the nodes that it cannot run.

The main graph is cut at the nodes that our own core evaluates. Each part between two cuts becomes a model with the same
nodes, constants and options as the whole, and runs in a :class:`qdqtool.models.running.ort_cpu.Session`. Tensors cross
a cut without loss. A Q or DQ of constants is evaluated once.

ONNX Runtime's CPU provider computes in float32. It makes float32 copies of float16 weights, and packed copies of other
weights. Version 1.31.1 took 3.0 GB of anonymous memory for a decoder with 1.6 GB of float16 weights. Without
optimizations it took 1.9 GB, because each conversion then runs just before the node that reads its result. In a divided
model only the weights of one part are copied, and the others stay in their file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from onnx import TensorProto

from qdqtool.errors import ModelError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.tensors import element_count, iter_tensors
from qdqtool.models.graph.model import Model
from qdqtool.models.options import Profile
from qdqtool.models.running.graph_parts import GraphPart, cut_by_weights
from qdqtool.models.running.ort_cpu import ModelSession, Session
from qdqtool.models.running.own_nodes import evaluate
from qdqtool.models.running.own_segments import Segment, Stage, Stages, make_stages, run_segment, segment_model
from qdqtool.models.running.own_support import EvaluatorSplit, OwnNode
from qdqtool.numerics.cores import ahead, cores, side_by_side
from qdqtool.numerics.dtypes import BFLOAT16, FLOAT32, Array

LARGE_WEIGHTS = 3 << 30
"""A model runs in parts if its weights have at least this many bytes in float32: about 0.8 billion parameters."""

PART_WEIGHTS = 1 << 29
"""Largest size of the weights of a part in float32, in bytes."""


def has_large_weights(model: Model) -> bool:
    """Return whether the weights of a model would take much memory in float32."""
    return sum(map(_float32_bytes, iter_tensors(model.proto))) >= LARGE_WEIGHTS


def _float32_bytes(tensor: TensorProto) -> int:
    return element_count(tensor) * FLOAT32.itemsize


class PartedSession(ModelSession):
    """A model that runs in parts. It holds no memory between runs."""

    def __init__(self, split: EvaluatorSplit, parts: Sequence[GraphPart], profile: Profile) -> None:
        self._split, self._model = split, split.index.model
        self._parts = [part for part in parts if part.nodes]
        self._profile = Profile.LEAN if profile is Profile.DEPLOYED else profile
        self._outputs = split.index.view.main.output_names()

    @classmethod
    def of(cls, model: Model, split: EvaluatorSplit | None, profile: Profile) -> "PartedSession | None":
        """Divide a model without nodes that our own core evaluates, if its weights are large.

        Returns:
            None if the weights are not large, or if a tensor that crosses a cut has no known type.
        """
        if (split is not None and split.own) or not has_large_weights(model):
            return None
        index = ModelIndex.of(model)
        main, graph = index.view.main, model.proto.graph
        types = {name: found for name, value in main.values.items() if (found := index.elem_type(value))}
        sizes = {tensor.name: _float32_bytes(tensor) for tensor in graph.initializer}
        parts = cut_by_weights(graph, sizes, PART_WEIGHTS, main.input_names(), main.output_names()).parts
        crossing = {name for part in parts for name in part.kept} - set(main.output_names())
        if not crossing <= types.keys():
            return None
        return cls(EvaluatorSplit({}, {} if split is None else split.widened, types, index), parts, profile)

    def close(self) -> None:
        """Do nothing: each part is closed after it ran."""

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model once; arguments and results are those of :meth:`qdqtool.models.running.ort_cpu.Session.run`."""
        known = _typed(feeds, self._model)
        for part in self._parts:
            segment = segment_model(self._model, self._split, Stage(part.nodes, needed=part.kept), known)
            with Session(segment.model, self._profile) as session:
                made = run_segment(segment, session, known)
            # copy(): a single array of a session keeps all memory of its run alive.
            known.update((name, array.copy()) for name, array in made.items())
            del made
            for name in part.unread:
                known.pop(name, None)
        return {name: self._result(name, known) for name in (self._outputs if outputs is None else outputs)}

    def _result(self, name: str, known: Mapping[str, Array]) -> Array:
        if name in known:
            return known[name]
        stored = self._split.index.constant(self._split.index.view.main.values[name])
        assert stored is not None
        return stored


def _typed(feeds: Mapping[str, Array], model: Model) -> dict[str, Array]:
    """Return a copy of the feeds; those of bfloat16 inputs, which are float32, are rounded to bfloat16."""
    inputs = model.proto.graph.input
    rounded = {each.name for each in inputs if each.type.tensor_type.elem_type == TensorProto.BFLOAT16}
    return {name: array.astype(BFLOAT16) if name in rounded else array for name, array in feeds.items()}


LARGE_RUN = 1 << 28
"""Runs with more bytes of activations are made one after the other."""


def open_session(model: Model, split: EvaluatorSplit | None, profile: Profile = Profile.SEMANTIC) -> ModelSession:
    """Open a session. The model is divided if ONNX Runtime cannot run it alone, or if its weights are large.

    Args:
        model: The model; it may have more outputs than the model that ``split`` was made for.
        split: The nodes that our own core evaluates; None if ONNX Runtime can run all nodes.
        profile: The configuration of ONNX Runtime.
    """
    parts = PartedSession.of(model, split, profile)
    if parts is not None:
        return parts
    return Session(model, profile) if split is None else SplitSession(model, split, profile)


def run_each(
    session: ModelSession, samples: Iterable[Mapping[str, Array]], outputs: Sequence[str], values: int
) -> Iterator[dict[str, Array]]:
    """Yield the outputs of each sample, in order. Runs of a session with one thread are parallel, on all cores.

    Args:
        session: A session with :attr:`Profile.SEMANTIC`.
        samples: One array for each input.
        outputs: Names of the outputs to return.
        values: Approximate number of activation values of a run; large runs are made one after the other.
    """

    def run(sample: Mapping[str, Array]) -> dict[str, Array]:
        return session.run(sample, outputs)

    # A divided session creates its parts in the first run.
    if isinstance(session, Session) and values * FLOAT32.itemsize <= LARGE_RUN:
        yield from side_by_side(run, samples)
    elif isinstance(session, PartedSession):
        # Each run has the weights of only one part in memory.
        yield from ahead(run, samples, min(cores(), 2))
    else:
        yield from map(run, samples)


class SplitSession(ModelSession):
    """A model that runs in ONNX Runtime between the nodes that our own core evaluates.

    The sessions are created in the first run, when the types of the tensors that cross the cuts are known.
    """

    def __init__(self, model: Model, split: EvaluatorSplit, profile: Profile) -> None:
        self._model, self._split, self._profile = model, split, profile
        self._open = ExitStack()
        self._sessions: dict[int, tuple[Segment, Session]] = {}
        self._stages: Stages = make_stages(model.proto, split)
        self._outputs = [output.name for output in model.proto.graph.output]
        self._constant: dict[str, Array] = {}
        for node in self._stages.constant:
            self._evaluate(node, self._constant)

    def close(self) -> None:
        """Free the sessions and the results computed from constants."""
        self._open.close()
        self._constant.clear()

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model once.

        Args:
            feeds: One array for each input. The array of a bfloat16 input is float32; it is rounded to bfloat16.
            outputs: Names of the outputs to return; default all. Their types may be ml_dtypes types.
        """
        known = self._constant | _typed(feeds, self._model)
        for number, stage in enumerate(self._stages.stages):
            if stage.nodes:
                self._run_segment(number, known)
            for node in stage.own:
                self._evaluate(node, known)
        return {name: self._result(name, known) for name in (self._outputs if outputs is None else outputs)}

    def _run_segment(self, number: int, known: dict[str, Array]) -> None:
        if number not in self._sessions:
            segment = segment_model(self._model, self._split, self._stages.stages[number], known)
            session = self._open.enter_context(Session(segment.model, self._profile))
            self._sessions[number] = segment, session
        known.update(run_segment(*self._sessions[number], known))

    def _evaluate(self, own: OwnNode, known: dict[str, Array]) -> None:
        def read(value: Value) -> Array | None:
            found = known.get(value.name)
            return found if found is not None else self._split.index.constants.array(value)

        output = own.node.output()
        if output is None:
            raise ModelError(f"node '{own.node.label}' ({own.node.op_type}) has no output; the operator has one")
        constant = self._split.index.constants.array(output) if own.entry is None else None
        made = evaluate(own.node, own.entry, read) if constant is None else (constant,)
        known.update({name: array for name, array in zip(own.node.key, made, strict=False) if name})

    def _result(self, name: str, known: Mapping[str, Array]) -> Array:
        if name in known:
            return known[name]
        stored = next(tensor for tensor in self._model.proto.graph.initializer if tensor.name == name)
        value = Value(name, self._split.index.view.main, initializer=stored)
        array = self._split.index.constants.array(value)
        assert array is not None
        return array
