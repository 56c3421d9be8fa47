"""Run a model whose weights would take much memory in parts, one session after the other.

ONNX Runtime's CPU provider computes in float32: of float16 weights it makes copies of twice the size, and other weights
are packed into copies. Measured with 1.31.1 on a decoder with 1.6 GB of float16 weights: 3.0 GB of anonymous memory,
and 1.9 GB without optimizations, since all conversions run in front of what reads them. In parts only the weights of
one part are copied, and the others stay in their file.
"""

from collections.abc import Mapping, Sequence
from typing import Self

from onnx import TensorProto

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.tensors import element_count, iter_tensors
from qdqtool.models.graph.model import Model
from qdqtool.models.running.graph_parts import Part, cut_by_weights
from qdqtool.models.running.ort_cpu import Profile, Session
from qdqtool.models.running.own_segments import run_segment, segment_model
from qdqtool.models.running.own_stages import Stage
from qdqtool.models.running.own_support import Split
from qdqtool.numerics.dtypes import FLOAT32, Array

LARGE_WEIGHTS = 3 << 30
"""Bytes of all weights in float32 from which a model runs in parts: some 0.8 billion parameters."""

PART_WEIGHTS = 1 << 29
"""Bytes of the weights of a part, in float32."""


def has_large_weights(model: Model) -> bool:
    """Return whether the weights of a model would take much memory in float32."""
    return sum(map(_float32_bytes, iter_tensors(model.proto))) >= LARGE_WEIGHTS


def _float32_bytes(tensor: TensorProto) -> int:
    return element_count(tensor) * FLOAT32.itemsize


class PartedSession:
    """A model in parts, with the methods of an ``ort_cpu.Session``. It holds no memory between runs.

    Args:
        split: Types of its tensors, with its index.
        parts: Its parts.
        profile: How ONNX Runtime runs each of them.
    """

    def __init__(self, split: Split, parts: Sequence[Part], profile: Profile) -> None:
        self._split, self._model = split, split.index.model
        self._parts = [part for part in parts if part.nodes]
        self._profile = Profile.LEAN if profile is Profile.DEPLOYED else profile
        self._outputs = split.index.view.main.output_names()

    @classmethod
    def of(cls, model: Model, profile: Profile) -> "PartedSession | None":
        """Divide a model that ONNX Runtime can run alone.

        Args:
            model: The model.
            profile: How ONNX Runtime runs it; :attr:`Profile.LEAN` stands for :attr:`Profile.DEPLOYED`.

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
        return cls(Split({}, frozenset(), types, index), parts, profile)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
