"""Cut the float baseline of ``check`` in the same way as a candidate, so that both compute the same tensors."""

import onnx

from qdqtool.jobs.reduction.subgraph import Subgraphs
from qdqtool.models.graph.model import Model


class BaselineCuts:
    """Cuts parts out of a baseline.

    Attributes:
        tensors: Names of the tensors in the main graph of the baseline.
    """

    def __init__(self, baseline: Model) -> None:
        self._graph = Subgraphs(baseline, frozenset())
        self.tensors = frozenset(self._graph.index.view.main.values)

    def like(self, candidate: onnx.ModelProto) -> Model | None:
        """Return the nodes of the baseline between the inputs and the outputs of a candidate.

        Args:
            candidate: A model that was cut out of the quantized form of the baseline.

        Returns:
            None if the baseline lacks one of the tensors, or if its part needs other inputs.
        """
        main = self._graph.index.view.main.values
        stored = {tensor.name for tensor in candidate.graph.initializer}
        inputs = {value.name for value in candidate.graph.input} - stored
        outputs = [value.name for value in candidate.graph.output]
        if not all(name in main for name in (*inputs, *outputs)):
            return None
        kept: set[int] = set()
        waiting = list(outputs)
        while waiting:
            value = main[waiting.pop()]
            if value.name in inputs or value.producer is None or value.producer.index in kept:
                continue
            kept.add(value.producer.index)
            waiting += [each.name for each in self._graph.reads[value.producer.index]]
        cut = self._graph.keep(kept, [main[name] for name in outputs])
        if cut is None or not {value.name for value in cut.proto.graph.input} <= inputs | stored:
            return None
        return cut
