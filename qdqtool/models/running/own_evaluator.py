"""Run models that ONNX Runtime's CPU provider cannot run alone: it runs what it can, our own core the other nodes.

The main graph is cut at the nodes that our own core evaluates. Each part between two cuts becomes a model with the same
nodes, constants and options as in the whole, and runs in a :class:`qdqtool.models.running.ort_cpu.Session`. Tensors
cross a cut without loss. A Q or DQ of constants is evaluated once.

ONNX Runtime's CPU provider computes in float32: of float16 weights it makes copies of twice the size, and other weights
are packed into copies. Measured with 1.31.1 on a decoder with 1.6 GB of float16 weights: 3.0 GB of anonymous memory,
and 1.9 GB without optimizations, since all conversions run in front of what reads them. In parts only the weights of
one part are copied, and the others stay in their file.
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
"""Bytes of all weights in float32 from which a model runs in parts: some 0.8 billion parameters."""

PART_WEIGHTS = 1 << 29
"""Bytes of the weights of a part, in float32."""


def has_large_weights(model: Model) -> bool:
    """Return whether the weights of a model would take much memory in float32."""
    return sum(map(_float32_bytes, iter_tensors(model.proto))) >= LARGE_WEIGHTS


def _float32_bytes(tensor: TensorProto) -> int:
    return element_count(tensor) * FLOAT32.itemsize


class PartedSession(ModelSession):
    """A model in parts. It holds no memory between runs."""

    def __init__(self, split: EvaluatorSplit, parts: Sequence[GraphPart], profile: Profile) -> None:
        self._split, self._model = split, split.index.model
        self._parts = [part for part in parts if part.nodes]
        self._profile = Profile.LEAN if profile is Profile.DEPLOYED else profile
        self._outputs = split.index.view.main.output_names()

    @classmethod
    def of(cls, model: Model, profile: Profile) -> "PartedSession | None":
        """Divide a model that ONNX Runtime can run alone.

        Returns:
            None where its weights are not large, or its parts would have to exchange other things than arrays.
        """
        if not has_large_weights(model):
            return None
        index = ModelIndex.of(model)
        main, graph = index.view.main, model.proto.graph
        types = {name: found for name, value in main.values.items() if (found := index.elem_type(value))}
        sizes = {tensor.name: _float32_bytes(tensor) for tensor in graph.initializer}
        parts = cut_by_weights(graph, sizes, PART_WEIGHTS, main.input_names(), main.output_names()).parts
        crossing = {name for part in parts for name in part.kept} - set(main.output_names())
        if not crossing <= types.keys():
            return None
        return cls(EvaluatorSplit({}, frozenset(), types, index), parts, profile)

    def close(self) -> None:
        """Do nothing: every part is closed behind its run."""

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model once; arguments and results as :meth:`qdqtool.models.running.ort_cpu.Session.run`."""
        known = dict(feeds)
        for part in self._parts:
            segment = segment_model(self._model, self._split, Stage(part.nodes, needed=part.kept), known)
            with Session(segment.model, self._profile) as session:
                made = run_segment(segment, session, known)
            # copy(): one array of a session keeps all memory of its run alive.
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


LARGE_RUN = 1 << 28
"""Bytes of activations of a run beside which there should be no other one in memory."""


def open_session(model: Model, split: EvaluatorSplit | None, profile: Profile = Profile.SEMANTIC) -> ModelSession:
    """Open a session of a model, divided where that is needed, or where its weights would take much memory.

    Args:
        model: The model; it may have more outputs than the one that ``split`` was made for.
        split: How it is divided; None for ONNX Runtime alone.
        profile: How ONNX Runtime is configured.
    """
    if split is not None:
        return SplitSession(model, split, profile)
    return PartedSession.of(model, profile) or Session(model, profile)


def run_each(
    session: ModelSession, samples: Iterable[Mapping[str, Array]], outputs: Sequence[str], values: int
) -> Iterator[dict[str, Array]]:
    """Yield the outputs of each sample, in order. Runs of a session with one thread go side by side, on all cores.

    Args:
        session: A session with :attr:`Profile.SEMANTIC`.
        samples: One array for each input.
        outputs: Names of the outputs to return.
        values: About how many values of activations a run computes: large runs go one after the other.
    """

    def run(sample: Mapping[str, Array]) -> dict[str, Array]:
        return session.run(sample, outputs)

    # A divided session makes its parts in the first run.
    if isinstance(session, Session) and values * FLOAT32.itemsize <= LARGE_RUN:
        yield from side_by_side(run, samples)
    elif isinstance(session, PartedSession):
        # Each run has the weights of one part in memory.
        yield from ahead(run, samples, min(cores(), 2))
    else:
        yield from map(run, samples)


class SplitSession(ModelSession):
    """A model that runs in ONNX Runtime between the nodes that our own core evaluates.

    The sessions are made in the first run, when the types of what crosses the cuts are known.
    """

    def __init__(self, model: Model, split: EvaluatorSplit, profile: Profile) -> None:
        self._model, self._split, self._profile = model, split, profile
        self._open = ExitStack()
        self._sessions: dict[int, tuple[Segment, Session]] = {}
        self._stages: Stages = make_stages(model.proto, split)
        self._outputs = [output.name for output in model.proto.graph.output]
        self._inputs = {value.name: value.type.tensor_type.elem_type for value in model.proto.graph.input}
        self._constant: dict[str, Array] = {}
        for node in self._stages.constant:
            self._evaluate(node, self._constant)

    def close(self) -> None:
        """Free the sessions and what was computed of constants."""
        self._open.close()
        self._constant.clear()

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model once.

        Args:
            feeds: One array for each input; float32 for bfloat16, to which it is rounded.
            outputs: Names of the outputs to return; default all. They are in their own types, which may be ml_dtypes'.
        """
        known = dict(self._constant)
        for name, array in feeds.items():
            known[name] = array.astype(BFLOAT16) if self._inputs.get(name) == TensorProto.BFLOAT16 else array
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
